// The functions of include/calib8.h: handles to objects, exceptions to codes and texts.
#define CALIB8_BUILDS
#include "../../include/calib8.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "../engine/kernels.h"
#include "../platform.h"
#include "fault.h"
#include "model.h"

struct calib8_model {
  std::shared_ptr<const calib8::c_library::Model> held;
};

struct calib8_stream {
  calib8::c_library::Stream held;
};

namespace {

using calib8::c_library::Arrays;
using calib8::c_library::Fault;
using calib8::c_library::Model;
namespace plan = calib8::plan;

bool control(char one) { return static_cast<unsigned char>(one) < ' ' || one == '\x7f'; }

// As much of a text as there is room for, on one line; no character of UTF-8 is cut.
void tell(calib8_error* error, calib8_code code, const char* text) {
  if (error == nullptr) return;
  size_t size = std::strlen(text);
  if (size >= sizeof error->text) {
    size = sizeof error->text - 1;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  }
  error->code = code;
  std::memcpy(error->text, text, size);
  std::replace_if(error->text, error->text + size, control, '?');
  std::memset(error->text + size, 0, sizeof error->text - size);
}

calib8_code code_of(plan::Fault fault) {
  switch (fault) {
    case plan::Fault::kNotAPlan:
      return CALIB8_NOT_A_PLAN;
    case plan::Fault::kNewer:
      return CALIB8_NEWER_PLAN;
    case plan::Fault::kFloatParts:
      return CALIB8_FLOAT_PARTS;
    case plan::Fault::kBroken:
      break;
  }
  return CALIB8_BROKEN_PLAN;
}

// What `work` does, with whatever it throws as a code. Nothing leaves this function.
template <class Work>
calib8_code guarded(calib8_error* error, Work work) noexcept {
  const auto fail = [error](calib8_code code, const char* text) {
    tell(error, code, text);
    return code;
  };
  try {
    work();
    return fail(CALIB8_OK, "");
  } catch (const Fault& fault) {
    return fail(fault.code(), fault.what());
  } catch (const plan::PlanError& fault) {
    return fail(code_of(fault.fault()), fault.what());
  } catch (const plan::FileError& fault) {
    return fail(CALIB8_NO_FILE, fault.what());
  } catch (const std::bad_alloc&) {
    return fail(CALIB8_NO_MEMORY, "there is not enough memory");
  } catch (const std::length_error&) {
    return fail(CALIB8_NO_MEMORY, "there is not enough memory");
  } catch (const std::exception& other) {
    return fail(CALIB8_INTERNAL, other.what());
  } catch (...) {
    return fail(CALIB8_INTERNAL, "something unknown went wrong");
  }
}

void need(const void* pointer, const char* what) {
  if (pointer == nullptr) throw Fault(CALIB8_BAD_ARGUMENT, std::string(what) + " is NULL");
}

int usable_processors() {
  return std::clamp(calib8::platform::usable_processors(), 1, calib8::engine::kMostThreads);
}

// The options that hold; those of a program that was built with a later header may be more, if they are 0.
calib8_options options_of(const calib8_options* given) {
  calib8_options options = CALIB8_OPTIONS;
  if (given == nullptr) return options;
  const auto refuse = [](const std::string& text) { throw Fault(CALIB8_BAD_ARGUMENT, text); };
  if (given->size < sizeof options || given->size > 4096) {
    refuse("options of " + std::to_string(given->size) + " bytes: begin with CALIB8_OPTIONS");
  }
  std::memcpy(&options, given, sizeof options);
  const auto* bytes = reinterpret_cast<const uint8_t*>(given);
  const bool more =
      std::any_of(bytes + sizeof options, bytes + given->size, [](uint8_t one) { return one != 0; });
  if (more || options.reserved != 0) refuse("options that this library does not know");
  if (options.threads < 0 || options.threads > calib8::engine::kMostThreads) {
    refuse("threads must be in 1 … 256, or 0 for as many as processors may be used, not " +
           std::to_string(options.threads));
  }
  if (options.threads == 0) options.threads = usable_processors();
  return options;
}

void open(calib8_model** model, plan::Content content, const calib8_options& options) {
  auto opened = std::make_unique<calib8_model>();
  opened->held =
      std::make_shared<const Model>(std::move(content), options.isa, options.threads, options.pin != 0);
  *model = opened.release();
}

const calib8_tensor* at(const std::vector<calib8_tensor>& tensors, size_t index) {
  return index < tensors.size() ? &tensors[index] : nullptr;
}

constexpr const char* kCodeNames[] = {
    "CALIB8_OK",          "CALIB8_BAD_ARGUMENT", "CALIB8_NO_FILE", "CALIB8_NOT_A_PLAN",  "CALIB8_NEWER_PLAN",
    "CALIB8_BROKEN_PLAN", "CALIB8_FLOAT_PARTS",  "CALIB8_NO_ISA",  "CALIB8_WRONG_ARRAY", "CALIB8_NO_MEMORY",
    "CALIB8_BUSY",        "CALIB8_NEEDS_STREAM", "CALIB8_INTERNAL"};
constexpr const char* kTypeNames[] = {nullptr,  "bool",  "int8",   "uint8",   "int16",   "uint16", "int32",
                                      "uint32", "int64", "uint64", "float16", "float32", "float64"};

template <size_t count>
const char* name_at(const char* const (&names)[count], int32_t index) {
  return index >= 0 && index < static_cast<int32_t>(count) ? names[index] : nullptr;
}

}  // namespace

extern "C" {

const char* calib8_version(void) { return CALIB8_VERSION; }
int32_t calib8_abi_version(void) { return CALIB8_ABI_VERSION; }
int32_t calib8_plan_format(void) { return static_cast<int32_t>(plan::kNewestFormat); }
const char* calib8_code_name(calib8_code code) { return name_at(kCodeNames, code); }
const char* calib8_type_name(calib8_type type) { return name_at(kTypeNames, type); }

const char* calib8_available_isa(size_t index) {
  const char* name = nullptr;
  (void)guarded(nullptr, [&] {
    const auto sets = calib8::engine::available_isas(calib8::features());
    if (index < sets.size()) name = sets[index]->name;
  });
  return name;
}

calib8_code calib8_open_file(const char* path, const calib8_options* options, calib8_model** model,
                             calib8_error* error) {
  if (model != nullptr) *model = nullptr;
  return guarded(error, [&] {
    need(path, "path"), need(model, "model");
    const calib8_options chosen = options_of(options);
    plan::Content content = plan::Content::mapped(path);
    try {
      open(model, std::move(content), chosen);
    } catch (const plan::PlanError& fault) {
      throw plan::PlanError(fault.fault(), std::string(path) + ": " + fault.what());
    } catch (const Fault& fault) {
      throw Fault(fault.code(), std::string(path) + ": " + fault.what());
    }
  });
}

calib8_code calib8_open_memory(const void* bytes, size_t size, const calib8_options* options,
                               calib8_model** model, calib8_error* error) {
  if (model != nullptr) *model = nullptr;
  return guarded(error, [&] {
    need(bytes, "bytes"), need(model, "model");
    const calib8_options chosen = options_of(options);
    if (chosen.in_place != 0 && reinterpret_cast<uintptr_t>(bytes) % 64 != 0) {
      throw Fault(CALIB8_BAD_ARGUMENT, "bytes that are used in place are not aligned to 64 bytes");
    }
    open(model,
         chosen.in_place != 0 ? plan::Content::borrowed(bytes, size) : plan::Content::copied(bytes, size),
         chosen);
  });
}

void calib8_close(calib8_model* model) { delete model; }

const char* calib8_model_name(const calib8_model* model) {
  return model == nullptr ? nullptr : model->held->plan().name.c_str();
}
const char* calib8_model_rounding(const calib8_model* model) {
  return model == nullptr ? nullptr : model->held->plan().profile.c_str();
}
const char* calib8_model_isa(const calib8_model* model) {
  return model == nullptr ? nullptr : model->held->isa();
}
int32_t calib8_model_threads(const calib8_model* model) {
  return model == nullptr ? 0 : model->held->threads();
}
size_t calib8_run_bytes(const calib8_model* model) { return model == nullptr ? 0 : model->held->run_bytes(); }
int calib8_has_state(const calib8_model* model) {
  return model != nullptr && !model->held->plan().states.empty() ? 1 : 0;
}
size_t calib8_input_count(const calib8_model* model) {
  return model == nullptr ? 0 : model->held->inputs().size();
}
size_t calib8_output_count(const calib8_model* model) {
  return model == nullptr ? 0 : model->held->outputs().size();
}
const calib8_tensor* calib8_input(const calib8_model* model, size_t index) {
  return model == nullptr ? nullptr : at(model->held->inputs(), index);
}
const calib8_tensor* calib8_output(const calib8_model* model, size_t index) {
  return model == nullptr ? nullptr : at(model->held->outputs(), index);
}

calib8_code calib8_run(calib8_model* model, const calib8_in* inputs, size_t input_count,
                       const calib8_out* outputs, size_t output_count, calib8_error* error) {
  return guarded(error, [&] {
    need(model, "model");
    model->held->run(Arrays{inputs, input_count, outputs, output_count});
  });
}

calib8_code calib8_open_stream(calib8_model* model, calib8_stream** stream, calib8_error* error) {
  if (stream != nullptr) *stream = nullptr;
  return guarded(error, [&] {
    need(model, "model"), need(stream, "stream");
    *stream = new calib8_stream{calib8::c_library::Stream(model->held)};
  });
}

calib8_code calib8_run_stream(calib8_stream* stream, const calib8_in* inputs, size_t input_count,
                              const calib8_out* outputs, size_t output_count, calib8_error* error) {
  return guarded(error, [&] {
    need(stream, "stream");
    stream->held.run(Arrays{inputs, input_count, outputs, output_count});
  });
}

calib8_code calib8_reset_stream(calib8_stream* stream, calib8_error* error) {
  return guarded(error, [&] {
    need(stream, "stream");
    stream->held.reset();
  });
}

void calib8_close_stream(calib8_stream* stream) { delete stream; }

}  // extern "C"
