// The op `Tap` of domain `calib8`: counts its input while ONNX Runtime has it in the cache, and yields a 0.
//
//   Tap(x) → token [1]      attributes: key and index (which taps, which of them), channels and block
//   (layout)
//
// ONNX Runtime finds it through the one function that this file exports, RegisterCustomOps.
#include <exception>
#include <string>

#include "ort_api.h"
#include "platform.h"
#include "taps.h"

namespace calib8 {
namespace {

using ort::Api;
using ort::Status;

struct Kernel {
  Api api;
  std::shared_ptr<Taps> taps;
  size_t index;
  TapLayout layout;
};

Status* shape_of(const Api& api, const ort::Value* value, std::vector<int64_t>& sizes) {
  ort::ShapeInfo* info = nullptr;
  if (Status* status = api.shape_info(value, &info)) return status;
  size_t rank = 0;
  Status* status = api.rank(info, &rank);
  sizes.resize(rank);
  if (status == nullptr && rank > 0) status = api.shape(info, sizes.data(), rank);
  api.release(info);
  return status;
}

Status* create(const void* const* table, const ort::KernelInfo* info, void** kernel) {
  const Api api(table);
  int64_t key = 0, index = 0, channels = 0, block = 0;
  const std::pair<const char*, int64_t*> wanted[] = {
      {"key", &key}, {"index", &index}, {"channels", &channels}, {"block", &block}};
  for (const auto& [name, value] : wanted) {
    if (Status* status = api.attribute(info, name, value)) return status;
  }
  std::shared_ptr<Taps> taps = published(key);
  if (taps == nullptr || index < 0 || static_cast<size_t>(index) >= taps->size()) {
    return api.create_status("calib8: no such tap");
  }
  if (channels < 0 || (channels > 0 && block < 1)) return api.create_status("calib8: no such layout");
  *kernel = new Kernel{api, std::move(taps), static_cast<size_t>(index), {channels, block}};
  return nullptr;
}

Status* compute(const Kernel& kernel, ort::KernelContext* context) {
  const Api& api = kernel.api;
  const ort::Value* input = nullptr;
  std::vector<int64_t> shape;
  void* data = nullptr;
  if (Status* status = api.input(context, 0, &input)) return status;
  if (Status* status = shape_of(api, input, shape)) return status;
  if (Status* status = api.data(const_cast<ort::Value*>(input), &data)) return status;
  Status* failed = nullptr;
  const RunParts run = [&](int parts, void (*part)(void*, size_t), void* job) {
    const auto n = static_cast<size_t>(parts);
    failed = api.parallel_for(context, part, n, n, job);
    return failed == nullptr;
  };
  const bool fits =
      kernel.taps->record(kernel.index, static_cast<const float*>(data), shape, kernel.layout, run);
  if (failed != nullptr) return failed;
  if (!fits) return api.create_status("calib8: a tapped tensor has another layout than its graph says");
  const int64_t one = 1;
  ort::Value* token = nullptr;
  void* written = nullptr;
  if (Status* status = api.output(context, 0, &one, 1, &token)) return status;
  if (Status* status = api.data(token, &written)) return status;
  *static_cast<float*>(written) = 0;
  return nullptr;
}

// No exception may pass through ONNX Runtime's C interface.
template <class Work>
Status* guarded(const Api& api, Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return api.create_status(error.what());
  }
}

ort::CustomOp tap_op() {
  using Op = const ort::CustomOp*;
  ort::CustomOp op = {};
  op.version = ort::kVersion;
  op.name = [](Op) { return "Tap"; };
  op.provider = [](Op) { return "CPUExecutionProvider"; };
  op.input_type = op.output_type = [](Op, size_t) { return ort::kFloat; };
  op.inputs = op.outputs = [](Op) -> size_t { return 1; };
  op.input_kind = op.output_kind = op.input_memory = [](Op, size_t) { return 0; };
  op.variadic_inputs = op.variadic_outputs = op.first_opset = [](Op) { return 1; };
  op.same_variadic_inputs = op.same_variadic_outputs = [](Op) { return 1; };
  op.last_opset = [](Op) { return 1000; };
  op.create_kernel_2 = [](Op, const void* api, const ort::KernelInfo* info, void** kernel) {
    const auto* const table = static_cast<const void* const*>(api);
    return guarded(Api(table), [=] { return create(table, info, kernel); });
  };
  op.compute_2 = [](void* kernel, ort::KernelContext* context) {
    const auto& tap = *static_cast<const Kernel*>(kernel);
    return guarded(tap.api, [&] { return compute(tap, context); });
  };
  op.destroy_kernel = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  return op;
}

}  // namespace
}  // namespace calib8

// Called for every session that is given this library. An ONNX Runtime that is too old gets nothing, and then
// refuses graphs that hold taps.
extern "C" CALIB8_EXPORT calib8::ort::Status* RegisterCustomOps(calib8::ort::Options* options,
                                                                const calib8::ort::Base* base) {
  static const calib8::ort::CustomOp op = calib8::tap_op();
  static calib8::ort::Domain* domain = nullptr;  // lives as long as the process, like the op in it
  const void* const* const table = base->get_api(calib8::ort::kVersion);
  if (table == nullptr) return nullptr;
  const calib8::ort::Api api(table);
  static calib8::ort::Status* const failed = [&] {
    calib8::ort::Status* const status = api.create_domain("calib8", &domain);
    return status != nullptr ? status : api.add_op(domain, &op);
  }();
  return failed != nullptr ? api.create_status("calib8: the op cannot be made")
                           : api.add_domain(options, domain);
}
