// The few entries of ONNX Runtime's C interface that a custom op needs, by their place in its tables.
//
// That interface is a table of functions that only ever grows at its end, so a place means the same function
// in every version from the one that brought it. The wheels of ONNX Runtime carry no header; this file says
// what is needed of it and nothing else. Everything here is of interface version 17 (ONNX Runtime 1.17); what
// an execution provider needs beside it is in onnxruntime_ep/plugin_api.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace calib8::ort {

constexpr uint32_t kVersion = 17;

struct Status;  // null: success
struct Value;
struct ShapeInfo;
struct Options;
struct Domain;
struct KernelInfo;
struct KernelContext;

struct Base {
  const void* const* (*get_api)(uint32_t version);  // null: too old for that version
  const char* (*version)();
};

constexpr int kFloat = 1;   // element type of a tensor
constexpr int kFailed = 1;  // code of a status

// The table of functions, each called through the place it has.
class Api {
 public:
  explicit Api(const void* const* table) : table_(table) {}

  Status* create_status(const char* message) const {
    return at<Status*(int, const char*)>(0)(kFailed, message);
  }
  Status* create_domain(const char* name, Domain** domain) const {
    return at<Status*(const char*, Domain**)>(26)(name, domain);
  }
  Status* add_op(Domain* domain, const void* op) const {
    return at<Status*(Domain*, const void*)>(27)(domain, op);
  }
  Status* add_domain(Options* options, Domain* domain) const {
    return at<Status*(Options*, Domain*)>(28)(options, domain);
  }
  Status* data(Value* value, void** data) const { return at<Status*(Value*, void**)>(51)(value, data); }
  Status* element_type(const ShapeInfo* info, int* type) const {
    return at<Status*(const ShapeInfo*, int*)>(60)(info, type);
  }
  Status* rank(const ShapeInfo* info, size_t* rank) const {
    return at<Status*(const ShapeInfo*, size_t*)>(61)(info, rank);
  }
  Status* shape(const ShapeInfo* info, int64_t* sizes, size_t rank) const {
    return at<Status*(const ShapeInfo*, int64_t*, size_t)>(62)(info, sizes, rank);
  }
  Status* shape_info(const Value* value, ShapeInfo** info) const {
    return at<Status*(const Value*, ShapeInfo**)>(65)(value, info);
  }
  Status* attribute(const KernelInfo* info, const char* name, int64_t* value) const {
    return at<Status*(const KernelInfo*, const char*, int64_t*)>(86)(info, name, value);
  }
  Status* input(const KernelContext* context, size_t index, const Value** value) const {
    return at<Status*(const KernelContext*, size_t, const Value**)>(90)(context, index, value);
  }
  Status* output(KernelContext* context, size_t index, const int64_t* sizes, size_t rank,
                 Value** value) const {
    return at<Status*(KernelContext*, size_t, const int64_t*, size_t, Value**)>(91)(context, index, sizes,
                                                                                    rank, value);
  }
  void release(Status* status) const { at<void(Status*)>(93)(status); }
  void release(ShapeInfo* info) const { at<void(ShapeInfo*)>(99)(info); }
  Status* parallel_for(const KernelContext* context, void (*part)(void*, size_t), size_t parts,
                       size_t batches, void* data) const {
    return at<Status*(const KernelContext*, void (*)(void*, size_t), size_t, size_t, void*)>(274)(
        context, part, parts, batches, data);
  }

 protected:
  template <class Function>
  Function* at(size_t place) const {
    return reinterpret_cast<Function*>(const_cast<void*>(table_[place]));
  }

 private:
  const void* const* table_;
};

// What ONNX Runtime asks of an op, in the order of interface version 17.
struct CustomOp {
  uint32_t version;
  void* (*create_kernel)(const CustomOp*, const void* api, const KernelInfo*);
  const char* (*name)(const CustomOp*);
  const char* (*provider)(const CustomOp*);
  int (*input_type)(const CustomOp*, size_t index);
  size_t (*inputs)(const CustomOp*);
  int (*output_type)(const CustomOp*, size_t index);
  size_t (*outputs)(const CustomOp*);
  void (*compute)(void* kernel, KernelContext*);
  void (*destroy_kernel)(void* kernel);
  int (*input_kind)(const CustomOp*, size_t index);    // 0: required
  int (*output_kind)(const CustomOp*, size_t index);   // same
  int (*input_memory)(const CustomOp*, size_t index);  // 0: where the provider has its own
  int (*variadic_inputs)(const CustomOp*);
  int (*same_variadic_inputs)(const CustomOp*);
  int (*variadic_outputs)(const CustomOp*);
  int (*same_variadic_outputs)(const CustomOp*);
  Status* (*create_kernel_2)(const CustomOp*, const void* api, const KernelInfo*, void** kernel);
  Status* (*compute_2)(void* kernel, KernelContext*);
  Status* (*infer_shape)(const CustomOp*, void* context);
  int (*first_opset)(const CustomOp*);
  int (*last_opset)(const CustomOp*);
};

}  // namespace calib8::ort
