// calib8._core.engine: plans run natively.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "../forks.h"
#include "checksum.h"
#include "codec.h"
#include "context_store.h"
#include "data_fault.h"
#include "engine.h"
#include "peak/peak.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace calib8::engine {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Anything = nb::ndarray<nb::c_contig, nb::device::cpu>;
using ReadOnly = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Row = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_threads(int threads) {
  if (threads < 1 || threads > kMostThreads) {
    throw std::invalid_argument("threads must be in 1 ... 256, not " + std::to_string(threads));
  }
}

// A struct that has members that fields() leaves out would be larger than its row.
template <class Step>
std::vector<std::string> whole_row() {
  std::vector<std::string> names = field_names<Step>();
  if (names.size() * sizeof(int64_t) != sizeof(Step)) {
    throw std::logic_error(std::string("fields() of step '") + Step::kName + "' leaves out a member");
  }
  return names;
}

template <int i = 0>
void add_schemas(nb::dict& rows, Schemas& structs) {
  if constexpr (i < kStepKinds) {
    using Step = std::tuple_element_t<i, AllSteps>;
    rows[Step::kName] = whole_row<Step>();
    add_schema<Step>(structs);
    add_schemas<i + 1>(rows, structs);
  }
}

template <int i = 0>
void add_origins(const Origins& origins, nb::dict& names) {
  if constexpr (i < kStepKinds) {
    names[std::tuple_element_t<i, AllSteps>::kName] = origins[i];
    add_origins<i + 1>(origins, names);
  }
}

class Session;

// A context borrowed from a session; it goes back when Python drops it.
struct Lent {
  Session* session;
  Borrowed borrowed;

  explicit Lent(Session& owner);
};

// An engine and what Python sees of it: the constants are kept alive, contexts are handed out one per caller.
class Session {
 public:
  Session(const std::vector<std::pair<std::string, Row>>& steps, Bytes constants, int64_t arena_bytes,
          std::vector<int64_t> port_bytes, int64_t inputs, const std::optional<std::string>& isa, int threads,
          bool pin)
      : constants_(std::move(constants)), port_bytes_(std::move(port_bytes)), inputs_(inputs) {
    check_threads(threads);
    Description description;
    for (const auto& [kind, row] : steps) {
      description.steps.push_back({kind, std::vector<int64_t>(row.data(), row.data() + row.size())});
    }
    description.constants = constants_.data();
    description.constant_bytes = static_cast<int64_t>(constants_.size());
    description.arena_bytes = arena_bytes;
    description.port_bytes = port_bytes_;
    engine_ = std::make_unique<Engine>(description, isa ? isa_by_name(*isa) : default_isa(), threads, pin);
    contexts_ = std::make_unique<ContextStore>(*engine_);
    if (inputs_ > engine_->first_written_port()) {
      throw std::invalid_argument("the plan is broken: a step writes into an input");
    }
    count_ = static_cast<int64_t>(steps.size());
    arena_bytes_ = arena_bytes;
  }

  std::string isa() const { return engine_->isa().name; }
  int threads() const { return engine_->threads(); }
  int64_t scratch_bytes() const { return engine_->scratch_bytes(); }
  std::vector<std::string> origins() const {
    std::vector<std::string> names;
    for (int64_t step = 0; step < count_; ++step) names.emplace_back(engine_->origin(step));
    return names;
  }

  std::vector<bool> shared() const {
    std::vector<bool> steps;
    for (int64_t step = 0; step < count_; ++step) steps.push_back(engine_->shared(step));
    return steps;
  }

  std::vector<bool> pair_sums() const {
    std::vector<bool> steps;
    for (int64_t step = 0; step < count_; ++step) steps.push_back(engine_->pair_sums(step));
    return steps;
  }

  std::vector<bool> filled() const {
    std::vector<bool> ports;
    for (size_t port = 0; port < port_bytes_.size(); ++port) ports.push_back(engine_->fills(port));
    return ports;
  }

  ContextStore& contexts() { return *contexts_; }

  // The memory of all ports, in their order.
  std::vector<uint8_t*> ports(const std::vector<ReadOnly>& inputs,
                              const std::vector<Anything>& outputs) const {
    std::vector<uint8_t*> ports;
    ports.reserve(port_bytes_.size());
    for (const ReadOnly& input : inputs) {
      ports.push_back(const_cast<uint8_t*>(static_cast<const uint8_t*>(input.data())));
      check_port(ports.size() - 1, input.data(), input.nbytes(), input.itemsize());
    }
    for (const Anything& output : outputs) {
      ports.push_back(static_cast<uint8_t*>(output.data()));
      check_port(ports.size() - 1, output.data(), output.nbytes(), output.itemsize());
    }
    if (static_cast<int64_t>(inputs.size()) != inputs_ || ports.size() != port_bytes_.size())
      throw std::invalid_argument("another number of inputs and outputs");
    return ports;
  }

  void run(
      Context& context, int64_t first, int64_t last, const std::vector<ReadOnly>& inputs,
      const std::vector<Anything>& outputs,
      const std::optional<nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>& nanoseconds) {
    if (first < 0 || last > count_ || first > last) throw std::invalid_argument("there are no such steps");
    const std::vector<uint8_t*> all = ports(inputs, outputs);
    if (nanoseconds && static_cast<int64_t>(nanoseconds->size()) != count_) {
      throw std::invalid_argument("another number of steps");
    }
    int64_t* times = nanoseconds ? nanoseconds->data() : nullptr;
    const nb::gil_scoped_release released;
    engine_->run(context, first, last, all, times);
  }

  // All steps, in memory that is idle now.
  void run_all(const std::vector<ReadOnly>& inputs, const std::vector<Anything>& outputs) {
    const std::vector<uint8_t*> all = ports(inputs, outputs);
    Borrowed borrowed(*contexts_);
    run_all(borrowed.context(), all);
  }
  void run_all(Context& context, const std::vector<uint8_t*>& ports) {
    const nb::gil_scoped_release released;
    engine_->run(context, 0, count_, ports, nullptr);
  }

  nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>> arena(Context& context, nb::handle owner) const {
    return {context.arena(), {static_cast<size_t>(arena_bytes_)}, owner};
  }

 private:
  void check_port(size_t port, const void* data, size_t bytes, size_t item) const {
    if (port >= port_bytes_.size() || static_cast<int64_t>(bytes) != port_bytes_[port]) {
      throw std::invalid_argument("an input or output has " + std::to_string(bytes) + " bytes");
    }
    if (item != 0 && reinterpret_cast<uintptr_t>(data) % item != 0) {
      throw std::invalid_argument("an input or output is not aligned to its elements");
    }
  }

  Bytes constants_;
  std::vector<int64_t> port_bytes_;
  int64_t inputs_;  // of the ports, the first ones; none of them is written
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ContextStore> contexts_;
  int64_t count_ = 0, arena_bytes_ = 0;
};

Lent::Lent(Session& owner) : session(&owner), borrowed(owner.contexts()) {}

// A run whose ports are known: nothing is looked at again.
class Bound {
 public:
  Bound(Session& session, std::vector<ReadOnly> inputs, std::vector<Anything> outputs)
      : inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        ports_(session.ports(inputs_, outputs_)),
        lent_(session) {}
  void run() {
    if (process_ != fork_count()) renew();
    lent_.session->run_all(lent_.borrowed.context(), ports_);
  }

 private:
  void renew() {
    lent_.borrowed.renew();
    process_ = fork_count();
  }

  std::vector<ReadOnly> inputs_;  // kept alive
  std::vector<Anything> outputs_;
  std::vector<uint8_t*> ports_;
  Lent lent_;
  int64_t process_ = fork_count();
};

// LengthError with its numbers: (step, buffer, sample, length, most).
void add_faults(nb::module_& m) {
  static nb::handle fault;  // lives as long as the module, which nobody unloads
  const nb::object type = nb::steal(PyErr_NewException("calib8._core.engine.LengthError", nullptr, nullptr));
  m.attr("LengthError") = type;
  fault = nb::object(type).release();
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const LengthError& thrown_error) {
      const WrongLength& found = thrown_error.found;
      const nb::tuple told = nb::make_tuple(found.step, found.buffer, found.sample, found.length, found.most);
      PyErr_SetObject(fault.ptr(), told.ptr());
    }
  });
}

}  // namespace

void bind(nb::module_& m) {
  add_faults(m);
  m.def("isa", [] { return std::string(default_isa().name); });
  using Names = std::vector<std::string>;
  m.def(
      "available_isas",
      [](const std::optional<Names>& of) {
        Names names;
        for (const Isa* isa : available_isas(of ? features_of(*of) : features()))
          names.emplace_back(isa->name);
        return names;
      },
      "features"_a = nb::none());
  m.def(
      "chosen_isa",
      [](const Names& of, const std::string& name) {
        return std::string(chosen_isa(name, features_of(of)).name);
      },
      "features"_a, "name"_a = "");
  m.def("schemas", [] {
    nb::dict rows;
    Schemas structs;
    add_schemas(rows, structs);
    return rows;
  });
  m.def("structs", [] {
    nb::dict rows, found;
    Schemas structs;
    add_schemas(rows, structs);
    for (const auto& [name, schema] : structs) {
      found[name.c_str()] = nb::make_tuple(schema.fields, schema.kinds);
    }
    return found;
  });
  m.attr("ARENA") = static_cast<int64_t>(kArena);
  m.attr("CONSTANTS") = static_cast<int64_t>(kConstants);
  m.attr("FIRST_PORT") = static_cast<int64_t>(kFirstPort);
  m.attr("AXES") = kAxes;
  m.attr("REPEATED") = kRepeated;
  m.attr("PADDED") = kPadded;
  m.def(
      "checksum",
      [](const std::vector<Bytes>& pieces) {
        const nb::gil_scoped_release released;
        Checksum sum;
        for (const Bytes& bytes : pieces) sum.add(bytes.data(), bytes.size());
        return sum.value();
      },
      "pieces"_a);
  m.def(
      "peak_gmacs",
      [](const std::string& isa, int threads) {
        check_threads(threads);
        const nb::gil_scoped_release released;
        return peak_gmacs(isa_by_name(isa), threads);
      },
      "isa"_a, "threads"_a = 1);
  m.def("peak_products", [](const std::string& isa) { return peak_products(isa_by_name(isa)); }, "isa"_a);
  m.def(
      "kernel_origins",
      [](const std::string& isa) {
        nb::dict names;
        add_origins(kernel_origins(isa_by_name(isa)), names);
        return names;
      },
      "isa"_a);
  nb::class_<Lent>(m, "Context")
      .def(nb::init<Session&>(), nb::keep_alive<1, 2>())
      .def("arena", [](nb::handle self) {
        Lent& lent = nb::cast<Lent&>(self);
        return lent.session->arena(lent.borrowed.context(), self);
      });
  nb::class_<Session>(m, "Engine")
      .def(nb::init<const std::vector<std::pair<std::string, Row>>&, Bytes, int64_t, std::vector<int64_t>,
                    int64_t, const std::optional<std::string>&, int, bool>(),
           "steps"_a, "constants"_a, "arena_bytes"_a, "port_bytes"_a, "inputs"_a, "isa"_a = nb::none(),
           "threads"_a = 1, "pin"_a = false)
      .def_prop_ro("isa", &Session::isa)
      .def_prop_ro("threads", &Session::threads)
      .def_prop_ro("scratch_bytes", &Session::scratch_bytes)
      .def_prop_ro("contexts", [](Session& self) { return self.contexts().count(); })
      .def_prop_ro("origins", &Session::origins)
      .def_prop_ro("shared", &Session::shared)
      .def_prop_ro("pair_sums", &Session::pair_sums)
      .def_prop_ro("filled", &Session::filled)
      .def(
          "run",
          [](Session& self, Lent& lent, int64_t first, int64_t last, const std::vector<ReadOnly>& inputs,
             const std::vector<Anything>& outputs,
             const std::optional<nb::ndarray<int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>&
                 nanoseconds) {
            self.run(lent.borrowed.context(), first, last, inputs, outputs, nanoseconds);
          },
          "context"_a, "first"_a, "last"_a, "inputs"_a, "outputs"_a, "nanoseconds"_a = nb::none())
      .def(
          "run_all",
          [](Session& self, const std::vector<ReadOnly>& inputs, const std::vector<Anything>& outputs) {
            self.run_all(inputs, outputs);
          },
          "inputs"_a, "outputs"_a);
  nb::class_<Bound>(m, "Bound")
      .def(nb::init<Session&, std::vector<ReadOnly>, std::vector<Anything>>(), nb::keep_alive<1, 2>(),
           "engine"_a, "inputs"_a, "outputs"_a)
      .def("run", &Bound::run);
}

}  // namespace calib8::engine
