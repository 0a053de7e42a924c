// The part of pybind11 that extensions usually need, on the plain C API: PYBIND11_MODULE, m.def with arguments,
// defaults, overloads and docstrings, and the guards of the GIL.
#pragma once

#include <cuda_agent/casts.h>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>

namespace pybind11 {
inline namespace cuda_agent_slim {

using ::cuda_agent::Object;

class gil_scoped_release {
 public:
  gil_scoped_release() : state_(PyEval_SaveThread()) {}
  ~gil_scoped_release() { PyEval_RestoreThread(state_); }
  gil_scoped_release(const gil_scoped_release&) = delete;
  gil_scoped_release& operator=(const gil_scoped_release&) = delete;

 private:
  PyThreadState* state_;
};

class gil_scoped_acquire {
 public:
  gil_scoped_acquire() : state_(PyGILState_Ensure()) {}
  ~gil_scoped_acquire() { PyGILState_Release(state_); }
  gil_scoped_acquire(const gil_scoped_acquire&) = delete;
  gil_scoped_acquire& operator=(const gil_scoped_acquire&) = delete;

 private:
  PyGILState_STATE state_;
};

template <class Guard>
struct call_guard {};

struct none : ::cuda_agent::None {};

struct arg_v {
  std::string name;
  Object value;
};

struct arg {
  explicit arg(const char* given) : name(given) {}
  template <class T>
  arg_v operator=(const T& value) const {
    Object object(::cuda_agent::to_python(value));
    if (object.get() == nullptr) throw std::runtime_error("the default of " + name + " cannot be made");
    return {name, object};
  }
  std::string name;
};

namespace literals {
inline arg operator""_a(const char* name, size_t) { return arg(name); }
}  // namespace literals

// One overload: `call` returns whether the arguments fit, and then the result (null with a Python error).
struct Overload {
  size_t arity = 0;
  std::vector<arg_v> named;
  std::function<bool(PyObject* const*, bool, PyObject**)> call;
  std::string takes;
};

struct Function {
  std::string name;
  std::string doc;
  std::vector<Overload> overloads;
  PyMethodDef method{};
};

inline void set_python_error() {
  try {
    throw;
  } catch (const c10::IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::NotImplementedError& error) {
    PyErr_SetString(PyExc_NotImplementedError, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const std::out_of_range& error) {
    PyErr_SetString(PyExc_IndexError, error.what());
  } catch (const std::invalid_argument& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::domain_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::length_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
}

// The arguments of a call in the order of the overload's parameters, with its defaults; false where they do not fit.
inline bool arrange(
    const Overload& overload, PyObject* const* given, Py_ssize_t count, PyObject* names, std::vector<PyObject*>& out) {
  out.assign(overload.arity, nullptr);
  if (static_cast<size_t>(count) > overload.arity) return false;
  std::copy(given, given + count, out.begin());
  for (Py_ssize_t k = 0; names != nullptr && k < PyTuple_GET_SIZE(names); k++) {
    size_t place = 0;
    while (place < overload.named.size() &&
           PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), overload.named[place].name.c_str()) != 0) {
      place++;
    }
    if (place == overload.named.size() || out[place] != nullptr) return false;
    out[place] = given[count + k];
  }
  for (size_t i = 0; i < out.size(); i++) {
    if (out[i] == nullptr && i < overload.named.size()) out[i] = overload.named[i].value.get();
    if (out[i] == nullptr) return false;
  }
  return true;
}

inline PyObject* call(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* names) {
  auto* function = static_cast<Function*>(PyCapsule_GetPointer(self, nullptr));
  std::vector<PyObject*> arguments;
  for (bool convert : {false, true}) {
    for (const Overload& overload : function->overloads) {
      PyObject* result = nullptr;
      if (!arrange(overload, given, count, names, arguments)) continue;
      try {
        if (overload.call(arguments.data(), convert, &result)) return result;
      } catch (...) {
        set_python_error();
        return nullptr;
      }
    }
  }
  std::string message = function->name + "(): incompatible function arguments. Expected:";
  for (const Overload& overload : function->overloads) message += " " + overload.takes;
  message += "; given: (";
  for (Py_ssize_t i = 0; i < count; i++) message += std::string(i > 0 ? ", " : "") + Py_TYPE(given[i])->tp_name;
  PyErr_SetString(PyExc_TypeError, (message + ")").c_str());
  return nullptr;
}

template <class T>
std::string described() {
  using V = std::decay_t<T>;
  if constexpr (std::is_same_v<V, at::Tensor>) return "Tensor";
  if constexpr (std::is_same_v<V, bool>) return "bool";
  if constexpr (std::is_integral_v<V>) return "int";
  if constexpr (std::is_floating_point_v<V>) return "float";
  if constexpr (std::is_same_v<V, std::string>) return "str";
  return "object";
}

template <bool Release, class R, class... A, size_t... I, class F>
std::function<bool(PyObject* const*, bool, PyObject**)> caller(F function, std::index_sequence<I...>) {
  return [function](PyObject* const* given, bool convert, PyObject** result) mutable {
    std::tuple<typename ::cuda_agent::From<std::decay_t<A>>::Value...> values;
    if (!(::cuda_agent::From<std::decay_t<A>>::load(given[I], std::get<I>(values), convert) && ...)) return false;
    auto run = [&]() -> R {
      std::conditional_t<Release, gil_scoped_release, ::cuda_agent::None> guard;
      (void)guard;
      return function(static_cast<A&&>(std::get<I>(values))...);
    };
    if constexpr (std::is_void_v<R>) {
      run();
      *result = Py_NewRef(Py_None);
    } else {
      std::decay_t<R> returned = run();
      *result = ::cuda_agent::to_python(returned);
    }
    return true;
  };
}

template <bool Release, class R, class... A>
Overload overload(R (*function)(A...)) {
  Overload made;
  made.arity = sizeof...(A);
  std::string listed;
  ((listed += (listed.empty() ? "" : ", ") + described<A>()), ...);
  made.takes = "(" + listed + ")";
  made.call = caller<Release, R, A...>(function, std::index_sequence_for<A...>());
  return made;
}
template <bool Release, class F, class R, class C, class... A>
Overload overload_of(F function, R (C::*)(A...) const) {
  Overload made;
  made.arity = sizeof...(A);
  std::string listed;
  ((listed += (listed.empty() ? "" : ", ") + described<A>()), ...);
  made.takes = "(" + listed + ")";
  made.call = caller<Release, R, A...>(std::move(function), std::index_sequence_for<A...>());
  return made;
}
template <bool Release, class F, std::enable_if_t<std::is_class_v<F>, int> = 0>
Overload overload(F function) {
  return overload_of<Release>(std::move(function), &F::operator());
}

inline void add(Function& function, Overload&, const char* doc) { function.doc = doc; }
inline void add(Function&, Overload& made, const arg& named) { made.named.push_back({named.name, Object()}); }
inline void add(Function&, Overload& made, const arg_v& named) { made.named.push_back(named); }
template <class Guard>
void add(Function&, Overload&, const call_guard<Guard>&) {}

class module_ {
 public:
  explicit module_(PyObject* module) : module_object_(module) {}

  template <class F, class... Extra>
  module_& def(const char* name, F&& function, const Extra&... extra) {
    constexpr bool release = (std::is_same_v<Extra, call_guard<gil_scoped_release>> || ...);
    Function& made = named(name);
    made.overloads.push_back(overload<release>(std::decay_t<F>(std::forward<F>(function))));
    (add(made, made.overloads.back(), extra), ...);
    if (!made.overloads.back().named.empty() && made.overloads.back().named.size() != made.overloads.back().arity) {
      throw std::runtime_error(std::string(name) + ": name all arguments or none");
    }
    made.method.ml_doc = made.doc.c_str();
    return *this;
  }

  struct Doc {
    PyObject* module;
    Doc& operator=(const char* text) {
      Object value(PyUnicode_FromString(text));
      PyObject_SetAttrString(module, "__doc__", value.get());
      return *this;
    }
  };
  Doc doc() { return {module_object_}; }

 private:
  // Functions live as long as the process, as their module does.
  Function& named(const char* name) {
    if (PyObject_HasAttrString(module_object_, name)) {
      Object present(PyObject_GetAttrString(module_object_, name));
      return *static_cast<Function*>(PyCapsule_GetPointer(PyCFunction_GetSelf(present.get()), nullptr));
    }
    auto* made = new Function{name, "", {}, {}};
    made->method = {made->name.c_str(), reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)),
                    METH_FASTCALL | METH_KEYWORDS, nullptr};
    Object self(PyCapsule_New(made, nullptr, nullptr));
    Object object(PyCFunction_NewEx(&made->method, self.get(), nullptr));
    if (object.get() == nullptr || PyObject_SetAttrString(module_object_, name, object.get()) != 0) {
      throw std::runtime_error(std::string("cannot define ") + name);
    }
    return *made;
  }

  PyObject* module_object_;
};
using module = module_;

inline PyObject* make_module(const char* name, void (*fill)(module_&)) {
  auto* definition = new PyModuleDef{PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  Object object(PyModule_Create(definition));
  if (object.get() == nullptr) return nullptr;
  try {
    module_ module(object.get());
    fill(module);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
  return object.release();
}

}  // namespace cuda_agent_slim
}  // namespace pybind11

namespace py = pybind11;

namespace torch {
// Errors become Python's in every call here.
template <class F>
F wrap_pybind_function(F function) { return function; }
}  // namespace torch

#define CUDA_AGENT_JOIN_(a, b) a##b
#define CUDA_AGENT_JOIN(a, b) CUDA_AGENT_JOIN_(a, b)
#define CUDA_AGENT_TEXT_(a) #a
#define CUDA_AGENT_TEXT(a) CUDA_AGENT_TEXT_(a)

#define PYBIND11_MODULE(name, variable, ...)                                                                \
  static void CUDA_AGENT_JOIN(cuda_agent_fill_, name)(::pybind11::module_&);                                \
  extern "C" __attribute__((visibility("default"))) PyObject* CUDA_AGENT_JOIN(PyInit_, name)() {            \
    return ::pybind11::make_module(CUDA_AGENT_TEXT(name), &CUDA_AGENT_JOIN(cuda_agent_fill_, name));        \
  }                                                                                                         \
  static void CUDA_AGENT_JOIN(cuda_agent_fill_, name)([[maybe_unused]] ::pybind11::module_ & variable)
