// Plans made ready and run: decoding, memory, the loop over the steps.
#include "engine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "../platform.h"
#include "codec.h"
#include "data_fault.h"
#include "limits.h"
#include "pair_sums.h"
#include "scratch.h"
#include "split_store.h"
#include "step_cost.h"

namespace calib8::engine {
namespace {

constexpr int64_t kHugePage = 1 << 21;  // large arenas lie on these

int64_t rounded_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

using Clock = std::chrono::steady_clock;

// A step of any kind.
struct AnyStep {
  int kind;  // its place in AllSteps
  std::shared_ptr<const void> step;
  int64_t scratch_bytes;
  bool shared;
};

template <int i = 0>
AnyStep decode_row(const Description::Row& row, Limits& limits) {
  if constexpr (i == kStepKinds) {
    throw std::invalid_argument("there is no kind of step called '" + row.kind + "'");
  } else {
    using Step = std::tuple_element_t<i, AllSteps>;
    if (row.kind != Step::kName) return decode_row<i + 1>(row, limits);
    auto step = std::make_shared<Step>();
    if (!decode(row.fields.data(), row.fields.size(), *step)) {
      throw std::invalid_argument("a step '" + row.kind + "' has " + std::to_string(row.fields.size()) +
                                  " fields");
    }
    check_step(*step, limits);
    return {i, step, scratch_bytes(*step), nanoseconds(*step) >= kWorthSharing};
  }
}

// The layer writes into the border that the step before it fills, and reads no byte of it.
bool writes_into(const AnyStep& layer, const FillHalo& border) {
  const auto same = [&](const View& output) {
    return output.buffer == border.view.buffer && output.offset == border.view.offset &&
           output.row_stride == border.view.row_stride && output.rows == border.view.rows;
  };
  if (layer.kind == kind_of<Conv>()) return same(static_cast<const Conv*>(layer.step.get())->output);
  if (layer.kind == kind_of<Depthwise>())
    return same(static_cast<const Depthwise*>(layer.step.get())->output);
  return false;
}

// A Conv, also that of a WideConv; null of any other step.
const Conv* layer_of(const AnyStep& any) {
  if (any.kind == kind_of<Conv>()) return static_cast<const Conv*>(any.step.get());
  if (any.kind == kind_of<WideConv>()) return &static_cast<const WideConv*>(any.step.get())->layer;
  return nullptr;
}

// A layer that reads lengths; null of any other step.
const Recurrent* reads_lengths(const AnyStep& any) {
  if (any.kind != kind_of<Recurrent>()) return nullptr;
  const auto* layer = static_cast<const Recurrent*>(any.step.get());
  return layer->lengths_buffer < 0 ? nullptr : layer;
}

}  // namespace

Context::Context(const Engine& owner, int64_t arena_bytes, int64_t scratch_bytes, int threads)
    : owner_(owner),
      arena_(allocate(arena_bytes)),
      scratch_(allocate(threads * rounded_up(scratch_bytes + kSlack, 128))),
      scratch_stride_(rounded_up(scratch_bytes + kSlack, 128)) {}

Context::Block Context::allocate(int64_t bytes) {
  const int64_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const int64_t size = rounded_up(bytes + kSlack, alignment);
  void* memory = platform::aligned_memory(static_cast<size_t>(alignment), static_cast<size_t>(size));
  if (memory == nullptr) throw std::bad_alloc();
  const bool large = alignment == kHugePage;
  if (large) platform::use_huge_pages(memory, static_cast<size_t>(size));
  // What no step of a forged plan writes tells nothing, and takes no memory where it is large.
  if (!large || !platform::forget_pages(memory, static_cast<size_t>(size))) {
    std::memset(memory, 0, static_cast<size_t>(size));
  }
  return Block(static_cast<uint8_t*>(memory));
}

Engine::Engine(const Description& description, const Isa& isa, int threads, bool pin)
    : isa_(isa),
      constants_(description.constants),
      arena_bytes_(description.arena_bytes),
      pool_(threads, pin) {
  Limits limits(description);
  const KernelTable table = kernel_table(isa);
  const Origins origins = kernel_origins(isa);
  const bool share_all = std::getenv("CALIB8_SHARE_ALL") != nullptr;  // tests: however small they are
  // The border that the step before fills.
  const FillHalo* border = nullptr;
  for (const Description::Row& row : description.steps) {
    const AnyStep any = decode_row(row, limits);
    const auto kind = static_cast<size_t>(any.kind);
    const bool shared = any.shared || share_all;
    if (border != nullptr) steps_.back().goes_with_next = shared && writes_into(any, *border);
    border = any.kind == kind_of<FillHalo>() ? static_cast<const FillHalo*>(any.step.get()) : nullptr;
    std::shared_ptr<const SplitRows> split;
    if (any.kind == kind_of<Conv>()) {
      split = split_rows_of(*static_cast<const Conv*>(any.step.get()), constants_);
    }
    const Conv* layer = isa.asks_pair_sums ? layer_of(any) : nullptr;
    const bool pair_sums = layer != nullptr && pair_sums_fit(*layer, constants_);
    steps_.push_back(
        {table[kind], origins[kind], split, pair_sums, any.step, shared, false, reads_lengths(any)});
    scratch_bytes_ = std::max(scratch_bytes_, any.scratch_bytes);
  }
  check_memory(scratch_bytes_);
  first_written_port_ = limits.first_written();
  for (size_t i = 0; i < description.port_bytes.size(); ++i) filled_.push_back(limits.filled(i));
}

std::unique_ptr<Context> Engine::new_context() const {
  return std::make_unique<Context>(*this, arena_bytes_, scratch_bytes_, pool_.threads());
}

namespace {

// The right to use a context, given back at the end.
class Entry {
 public:
  Entry(Context& context, const Engine& engine) : context_(context) {
    if (&context.owner() != &engine) throw std::invalid_argument("the context belongs to another engine");
    if (!context.try_enter()) throw std::invalid_argument("the context is in use by another thread");
  }
  ~Entry() { context_.leave(); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  Context& context_;
};

// The threads of a pool where it is idle, given back at the end.
class Turn {
 public:
  explicit Turn(SpinPool& pool) : pool_(pool), mine_(pool.try_acquire()) {}
  ~Turn() {
    if (mine_) pool_.release();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool mine() const { return mine_; }

 private:
  SpinPool& pool_;
  const bool mine_;
};

}  // namespace

struct Engine::Job {
  const Decoded* border;  // filled before the step, null for none
  const Decoded* step;
  uint8_t* const* buffers;
  Context* context;
  int parts;
  std::atomic<int> through;  // see Memory
};

void Engine::work(void* job, int part) {
  Job& task = *static_cast<Job*>(job);
  Context& context = *task.context;
  Memory memory{task.buffers, context.scratch(part), nullptr, false, context.scratch_apart(), &task.through};
  for (const Decoded* step : {task.border, task.step}) {
    if (step == nullptr) continue;
    memory.split = step->split.get();
    memory.pair_sums_fit = step->pair_sums_fit;
    step->kernel(step->step.get(), memory, {part, task.parts});
  }
}

void Engine::run(Context& context, int64_t first, int64_t last, const std::vector<uint8_t*>& ports,
                 int64_t* nanoseconds) {
  const Entry entry(context, *this);
  std::vector<uint8_t*> buffers{context.arena(), const_cast<uint8_t*>(constants_)};
  buffers.insert(buffers.end(), ports.begin(), ports.end());
  const Turn turn(pool_);
  const bool parallel = turn.mine();
  Job job{nullptr, nullptr, buffers.data(), &context, 1, {0}};
  for (int64_t i = first; i < last; ++i) {
    const Decoded& decoded = steps_[static_cast<size_t>(i)];
    if (decoded.goes_with_next && parallel && nanoseconds == nullptr && i + 1 < last) {
      job.border = &decoded;
      continue;
    }
    if (decoded.checked != nullptr) check_lengths(*decoded.checked, i, buffers.data());
    job.step = &decoded;
    const auto start = nanoseconds == nullptr ? Clock::time_point() : Clock::now();
    const bool shared = parallel && decoded.shared;
    job.parts = shared ? pool_.threads() : 1;
    if (shared) {
      job.through.store(0, std::memory_order_relaxed);
      pool_.run(work, &job);
    } else {
      work(&job, 0);
    }
    job.border = nullptr;
    if (nanoseconds != nullptr) {
      nanoseconds[i] += std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    }
  }
}

}  // namespace calib8::engine
