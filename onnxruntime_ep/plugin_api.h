// The entries of ONNX Runtime's C interface that an execution provider needs, by their place in its tables.
//
// As in csrc/ort_api.h: tables and structs only grow at their ends, so a place keeps its meaning. Everything
// here is of interface version 23 (ONNX Runtime 1.23), the first in which a provider from outside can compile
// nodes.
#pragma once

#include <string>
#include <vector>

#include "../csrc/ort_api.h"

namespace calib8::ort {

constexpr uint32_t kPluginVersion = 23;

#if defined(_WIN32)
using PathChar = wchar_t;
#else
using PathChar = char;
#endif

struct Logger;
struct Device;          // a processor of the machine
struct ProviderDevice;  // a provider with a processor that it uses
struct Pairs;           // of texts
struct Graph;
struct Node;
struct ValueInfo;  // name and type of a value in a graph
struct TypeInfo;
struct Attribute;
struct Support;         // the nodes that a provider takes
struct ComputeContext;  // where a compiled node is made ready
struct Allocator;
struct MemoryInfo;
struct MemoryDevice;
struct DataTransfer;
struct SyncStream;
struct RunOptions;

// Codes of a status; kFailed is in csrc/ort_api.h.
constexpr int kInvalidArgument = 2;
constexpr int kNoFile = 3;
constexpr int kInvalidGraph = 10;

constexpr int kCpu = 0;            // kind of a Device
constexpr int kWarning = 2;        // severity of a message
constexpr int kIntAttribute = 1;   // kinds of an Attribute
constexpr int kTextAttribute = 5;  // any bytes

// How nodes become one.
struct Fusion {
  uint32_t version;
  bool drops_constants;  // constants are not inputs of the compiled node
};

// The functions for providers alone: a second table, which the first one gives.
class ProviderApi {
 public:
  explicit ProviderApi(const void* const* table) : table_(table) {}

  Status* create_device(void* factory, const Device* device, ProviderDevice** made) const {
    using Create = Status*(void*, const Device*, const Pairs*, const Pairs*, ProviderDevice**);
    return reinterpret_cast<Create*>(const_cast<void*>(table_[0]))(factory, device, nullptr, nullptr, made);
  }
  Status* fuse(Support* support, const Node* const* nodes, size_t count, const Fusion* how) const {
    using Fuse = Status*(Support*, const Node* const*, size_t, const Fusion*);
    return reinterpret_cast<Fuse*>(const_cast<void*>(table_[2]))(support, nodes, count, how);
  }

 private:
  const void* const* table_;
};

class PluginApi : public Api {
 public:
  using Api::Api;
  using Api::release;

  Status* create_status(int code, const char* message) const {
    return at<Status*(int, const char*)>(0)(code, message);
  }
  const char* message(const Status* status) const { return at<const char*(const Status*)>(2)(status); }
  Status* tensor_type(const TypeInfo* info, const ShapeInfo** tensor) const {  // null: no tensor
    return at<Status*(const TypeInfo*, const ShapeInfo**)>(55)(info, tensor);
  }
  Status* input_count(const KernelContext* context, size_t* count) const {
    return at<Status*(const KernelContext*, size_t*)>(88)(context, count);
  }
  Status* has_entry(const Options* options, const char* key, int* found) const {
    return at<Status*(const Options*, const char*, int*)>(237)(options, key, found);
  }
  Status* log(const Logger* logger, int severity, const char* text, const PathChar* file, int line,
              const char* function) const {
    using Log = Status*(const Logger*, int, const char*, const PathChar*, int, const char*);
    return at<Log>(247)(logger, severity, text, file, line, function);
  }
  // *size becomes what is needed, also where `bytes` are too few.
  Status* read(const Attribute* attribute, int kind, void* data, size_t bytes, size_t* size) const {
    return at<Status*(const Attribute*, int, void*, size_t, size_t*)>(272)(attribute, kind, data, bytes,
                                                                           size);
  }
  Status* name(const ValueInfo* value, const char** name) const {
    return at<Status*(const ValueInfo*, const char**)>(289)(value, name);
  }
  Status* type(const ValueInfo* value, const TypeInfo** type) const {
    return at<Status*(const ValueInfo*, const TypeInfo**)>(290)(value, type);
  }
  void pairs(const Pairs* pairs, const char* const** keys, const char* const** values, size_t* count) const {
    at<void(const Pairs*, const char* const**, const char* const**, size_t*)>(298)(pairs, keys, values,
                                                                                   count);
  }
  void release(Pairs* pairs) const { at<void(Pairs*)>(300)(pairs); }
  int kind(const Device* device) const { return at<int(const Device*)>(307)(device); }
  ProviderApi provider() const { return ProviderApi(at<const void* const*()>(317)()); }
  Status* model_path(const Graph* graph, const PathChar** path) const {  // empty: the model has none
    return at<Status*(const Graph*, const PathChar**)>(334)(graph, path);
  }
  Status* node_count(const Graph* graph, size_t* count) const {
    return at<Status*(const Graph*, size_t*)>(344)(graph, count);
  }
  Status* nodes(const Graph* graph, const Node** nodes, size_t count) const {
    return at<Status*(const Graph*, const Node**, size_t)>(345)(graph, nodes, count);
  }
  Status* name(const Node* node, const char** name) const {
    return at<Status*(const Node*, const char**)>(349)(node, name);
  }
  Status* op_type(const Node* node, const char** op_type) const {
    return at<Status*(const Node*, const char**)>(350)(node, op_type);
  }
  Status* domain(const Node* node, const char** domain) const {
    return at<Status*(const Node*, const char**)>(351)(node, domain);
  }
  Status* input_count(const Node* node, size_t* count) const {
    return at<Status*(const Node*, size_t*)>(353)(node, count);
  }
  Status* inputs(const Node* node, const ValueInfo** values, size_t count) const {
    return at<Status*(const Node*, const ValueInfo**, size_t)>(354)(node, values, count);
  }
  Status* output_count(const Node* node, size_t* count) const {
    return at<Status*(const Node*, size_t*)>(355)(node, count);
  }
  Status* outputs(const Node* node, const ValueInfo** values, size_t count) const {
    return at<Status*(const Node*, const ValueInfo**, size_t)>(356)(node, values, count);
  }
  // An attribute that there is not: null, or a status, as the version of ONNX Runtime has it.
  Status* attribute(const Node* node, const char* name, const Attribute** attribute) const {
    return at<Status*(const Node*, const char*, const Attribute**)>(361)(node, name, attribute);
  }
  Status* kind(const Attribute* attribute, int* kind) const {
    return at<Status*(const Attribute*, int*)>(363)(attribute, kind);
  }
  Status* entries(const Options* options, Pairs** entries) const {
    return at<Status*(const Options*, Pairs**)>(379)(options, entries);
  }
};

// What a compiled node does, in the order of interface version 23.
struct NodeCompute {
  uint32_t version;
  Status* (*create_state)(NodeCompute*, ComputeContext*, void** state);
  Status* (*compute)(NodeCompute*, void* state, KernelContext*);
  void (*release_state)(NodeCompute*, void* state);
};

// A provider in a session.
struct Provider {
  uint32_t version;
  const char* (*name)(const Provider*);
  Status* (*capability)(Provider*, const Graph*, Support*);
  Status* (*compile)(Provider*, const Graph** graphs, const Node** fused, size_t count, NodeCompute** made,
                     Node** contexts);
  void (*release_computes)(Provider*, NodeCompute**, size_t count);
  void* preferred_layout;  // null: none
  void* converts_layout;
  void* set_dynamic_options;
  void* on_run_start;
  void* on_run_end;
  void* create_allocator;  // null: that of the factory
  void* create_stream;
  const char* (*compatibility)(Provider*, const Graph*);
  void* later[8];  // null: entries of later versions, which are not asked for
};

// What makes providers.
struct Factory {
  uint32_t version;
  const char* (*name)(const Factory*);
  const char* (*vendor)(const Factory*);
  Status* (*devices)(Factory*, const Device* const* devices, size_t count, ProviderDevice** made, size_t most,
                     size_t* made_count);
  Status* (*create)(Factory*, const Device* const* devices, const Pairs* const* metadata, size_t count,
                    const Options*, const Logger*, Provider**);
  void (*release)(Factory*, Provider*);
  uint32_t (*vendor_id)(const Factory*);
  const char* (*release_version)(const Factory*);
  Status* (*validate)(Factory*, const Device* const* devices, size_t count, const char* info, int* result);
  // ONNX Runtime calls the next four without asking whether they are there.
  Status* (*create_allocator)(Factory*, const MemoryInfo*, const Pairs*, Allocator**);
  void (*release_allocator)(Factory*, Allocator*);
  Status* (*create_transfer)(Factory*, DataTransfer**);
  bool (*has_streams)(const Factory*);
  Status* (*create_stream)(Factory*, const MemoryDevice*, const Pairs*, SyncStream**);
  void* later[8];
};

}  // namespace calib8::ort
