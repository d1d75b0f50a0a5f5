// JSON as the headers of plans have it: ASCII, read strictly and only inside its bytes.
//
// Stricter than the standard: no name twice in an object, no \u0000, whole numbers within 64 bits, nesting
// and the number of values bounded. So whatever is read here, Python's json reads alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace calib8::plan {

// One value with all that is inside it.
class Json {
 public:
  enum class Kind { kNull, kBool, kWhole, kReal, kText, kList, kObject };

  // Throws std::invalid_argument for anything that is no such JSON, with the place of the first wrong byte.
  static Json parse(const uint8_t* bytes, size_t size);

  Kind kind() const { return kind_; }
  // Each of these throws std::invalid_argument for a value of another kind; `real` takes whole numbers too.
  int64_t whole() const;
  double real() const;
  const std::string& text() const;  // UTF-8
  const std::vector<Json>& list() const;
  // A member of an object; throws where it has none of this name.
  const Json& at(const char* name) const;
  // The same; null where there is none.
  const Json* find(const char* name) const;
  // Names of the members of an object, in their order.
  const std::vector<std::string>& names() const;

 private:
  friend class JsonReader;
  const Json& as(Kind kind) const;

  Kind kind_ = Kind::kNull;
  int64_t whole_ = 0;  // of kWhole and kBool
  double real_ = 0.0;
  std::string text_;
  std::vector<Json> items_;         // of lists, and the values of an object
  std::vector<std::string> names_;  // of an object
};

}  // namespace calib8::plan
