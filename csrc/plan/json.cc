// Reads JSON by recursive descent.
#include "json.h"

#include <cstring>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <unordered_set>

namespace calib8::plan {
namespace {

constexpr int kDeepest = 32;                       // headers have five levels
constexpr int64_t kMostValues = int64_t{1} << 22;  // a plan has a few thousand

const char* name_of(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::kNull:
      return "null";
    case Json::Kind::kBool:
      return "true or false";
    case Json::Kind::kWhole:
      return "a whole number";
    case Json::Kind::kReal:
      return "a number";
    case Json::Kind::kText:
      return "a text";
    case Json::Kind::kList:
      return "a list";
    case Json::Kind::kObject:
      return "an object";
  }
  return "nothing";
}

void append_utf8(std::string& text, uint32_t code) {
  const auto byte = [&](uint32_t value) { text.push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F));
  }
}

}  // namespace

class JsonReader {
 public:
  JsonReader(const char* bytes, size_t size) : begin_(bytes), next_(bytes), end_(bytes + size) {}

  Json whole_text() {
    Json value = this->value(0);
    skip_space();
    if (next_ != end_) wrong("more than one value");
    return value;
  }

 private:
  [[noreturn]] void wrong(const char* what) const {
    throw std::invalid_argument(std::string(what) + " at byte " + std::to_string(next_ - begin_));
  }

  void skip_space() {
    while (next_ != end_ && (*next_ == ' ' || *next_ == '\n' || *next_ == '\r' || *next_ == '\t')) ++next_;
  }

  char peek() const {
    if (next_ == end_) wrong("an early end");
    return *next_;
  }

  bool take(char wanted) {
    if (next_ == end_ || *next_ != wanted) return false;
    ++next_;
    return true;
  }

  void expect(char wanted, const char* what) {
    if (!take(wanted)) wrong(what);
  }

  Json value(int depth) {
    if (depth > kDeepest) wrong("too many brackets");
    if (++values_ > kMostValues) wrong("too many values");
    skip_space();
    Json value;
    switch (peek()) {
      case '{':
        object(value, depth);
        break;
      case '[':
        list(value, depth);
        break;
      case '"':
        value.kind_ = Json::Kind::kText;
        value.text_ = text();
        break;
      case 't':
        word("true", value, Json::Kind::kBool), value.whole_ = 1;
        break;
      case 'f':
        word("false", value, Json::Kind::kBool);
        break;
      case 'n':
        word("null", value, Json::Kind::kNull);
        break;
      default:
        number(value);
    }
    return value;
  }

  void word(const char* wanted, Json& value, Json::Kind kind) {
    const size_t size = std::strlen(wanted);
    if (static_cast<size_t>(end_ - next_) < size || std::memcmp(next_, wanted, size) != 0) {
      wrong("an unknown word");
    }
    next_ += size;
    value.kind_ = kind;
  }

  void list(Json& value, int depth) {
    value.kind_ = Json::Kind::kList;
    ++next_;
    skip_space();
    if (take(']')) return;
    do {
      value.items_.push_back(this->value(depth + 1));
      skip_space();
    } while (take(','));
    expect(']', "a list without its end");
  }

  void object(Json& value, int depth) {
    value.kind_ = Json::Kind::kObject;
    ++next_;
    skip_space();
    if (take('}')) return;
    std::unordered_set<std::string> seen;
    do {
      skip_space();
      if (peek() != '"') wrong("a member without a name");
      value.names_.push_back(text());
      if (!seen.insert(value.names_.back()).second) wrong("a name twice");
      skip_space();
      expect(':', "a name without a value");
      value.items_.push_back(this->value(depth + 1));
      skip_space();
    } while (take(','));
    expect('}', "an object without its end");
  }

  std::string text() {
    std::string text;
    for (++next_; peek() != '"';) {
      const char one = *next_++;
      if (one == '\\') {
        escape(text);
      } else if (one < ' ' || one == '\x7f') {  // also what is not ASCII, where char has a sign
        wrong("a byte that no text has");
      } else if (static_cast<unsigned char>(one) > 0x7f) {
        wrong("a byte that no text has");
      } else {
        text.push_back(one);
      }
    }
    ++next_;
    return text;
  }

  void escape(std::string& text) {
    static const char kFrom[] = "\"\\/bfnrt", kTo[] = "\"\\/\b\f\n\r\t";
    const char one = peek();
    ++next_;
    if (one == 'u') {
      append_utf8(text, code_point());
      return;
    }
    const char* found = one == '\0' ? nullptr : std::strchr(kFrom, one);
    if (found == nullptr) wrong("an unknown escape");
    text.push_back(kTo[found - kFrom]);
  }

  uint32_t code_point() {
    const uint32_t first = four_digits();
    if (first == 0) wrong("a zero in a text");
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || !take('\\') || !take('u')) wrong("half a character");
    const uint32_t second = four_digits();
    if (second < 0xDC00 || second > 0xDFFF) wrong("half a character");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  uint32_t four_digits() {
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++next_) {
      const char one = peek();
      const int digit = one >= '0' && one <= '9'   ? one - '0'
                        : one >= 'a' && one <= 'f' ? one - 'a' + 10
                        : one >= 'A' && one <= 'F' ? one - 'A' + 10
                                                   : -1;
      if (digit < 0) wrong("an escape without four digits");
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return code;
  }

  bool digit() const { return next_ != end_ && *next_ >= '0' && *next_ <= '9'; }

  void digits(const char* what) {
    if (!digit()) wrong(what);
    while (digit()) ++next_;
  }

  void number(Json& value) {
    const char* const start = next_;
    const bool negative = take('-');
    const char* const first = next_;
    digits("no value");
    if (*first == '0' && next_ - first > 1) wrong("a number that begins with 0");
    if (next_ == end_ || (*next_ != '.' && *next_ != 'e' && *next_ != 'E')) {
      value.kind_ = Json::Kind::kWhole;
      value.whole_ = whole(first, negative);
      return;
    }
    if (take('.')) digits("a number without its fraction");
    if (take('e') || take('E')) {
      if (!take('+')) (void)take('-');
      digits("a number without its exponent");
    }
    std::istringstream stream(std::string(start, next_));
    stream.imbue(std::locale::classic());  // whatever the program has set
    if (!(stream >> value.real_)) wrong("a number beyond all");
    value.kind_ = Json::Kind::kReal;
  }

  // The digits from `first` to where the reader is. Summed below 0, where there is room for one more.
  int64_t whole(const char* first, bool negative) const {
    int64_t sum = 0;
    for (; first != next_; ++first) {
      const int64_t one = *first - '0';
      if (sum < (INT64_MIN + one) / 10) wrong("a number beyond 64 bits");
      sum = sum * 10 - one;
    }
    if (!negative && sum == INT64_MIN) wrong("a number beyond 64 bits");
    return negative ? sum : -sum;
  }

  const char *begin_, *next_, *end_;
  int64_t values_ = 0;
};

Json Json::parse(const uint8_t* bytes, size_t size) {
  return JsonReader(reinterpret_cast<const char*>(bytes), size).whole_text();
}

const Json& Json::as(Kind kind) const {
  if (kind_ == kind) return *this;
  throw std::invalid_argument(std::string(name_of(kind_)) + " in place of " + name_of(kind));
}

int64_t Json::whole() const { return as(Kind::kWhole).whole_; }
double Json::real() const {
  return kind_ == Kind::kWhole ? static_cast<double>(whole_) : as(Kind::kReal).real_;
}
const std::string& Json::text() const { return as(Kind::kText).text_; }
const std::vector<Json>& Json::list() const { return as(Kind::kList).items_; }
const std::vector<std::string>& Json::names() const { return as(Kind::kObject).names_; }

const Json* Json::find(const char* name) const {
  const std::vector<std::string>& names = as(Kind::kObject).names_;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return &items_[i];
  }
  return nullptr;
}

const Json& Json::at(const char* name) const {
  if (const Json* found = find(name)) return *found;
  throw std::invalid_argument(std::string("no '") + name + "'");
}

}  // namespace calib8::plan
