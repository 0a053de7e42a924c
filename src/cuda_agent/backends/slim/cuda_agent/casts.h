// Between Python objects and the C++ types that extension functions usually take and return. A type that is missing
// here is an error of the compiler, upon which the source is compiled with pybind11 itself.
#pragma once

#include <Python.h>

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_agent/generated.h>

namespace cuda_agent {

// Owns one reference.
class Object {
 public:
  Object() = default;
  explicit Object(PyObject* owned) : pointer_(owned) {}
  Object(const Object& other) : pointer_(other.pointer_) { Py_XINCREF(pointer_); }
  Object(Object&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Object() { Py_XDECREF(pointer_); }
  PyObject* get() const { return pointer_; }
  PyObject* release() { return std::exchange(pointer_, nullptr); }

 private:
  PyObject* pointer_ = nullptr;
};

struct None {};

inline const at::Tensor& contained(const at::Tensor& tensor) { return tensor; }
template <class Holder>
const at::Tensor& contained(const Holder& holder) { return *holder; }

inline bool is_tensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(THPVariableClass)) != 0;
}

// From<T>::load(object, value, convert): whether `object` can be a T. With `convert` also what has to be converted.
template <class T, class = void>
struct From;

template <>
struct From<at::Tensor> {
  using Value = at::Tensor;
  static bool load(PyObject* object, Value& value, bool) {
    if (!is_tensor(object)) return false;
    value = contained(reinterpret_cast<TensorObject*>(object)->cdata);
    return true;
  }
};

template <>
struct From<bool> {
  using Value = bool;
  static bool load(PyObject* object, Value& value, bool convert) {
    if (object == Py_True || object == Py_False) {
      value = object == Py_True;
      return true;
    }
    if (!convert || is_tensor(object)) return false;
    int truth = object == Py_None ? 0 : PyNumber_Check(object) ? PyObject_IsTrue(object) : -1;
    PyErr_Clear();
    value = truth == 1;
    return truth >= 0;
  }
};

template <class T>
struct From<T, std::enable_if_t<std::is_integral_v<T>>> {
  using Value = T;
  static bool load(PyObject* object, Value& value, bool convert) {
    if (PyFloat_Check(object)) return false;
    if (!PyLong_Check(object) && !PyIndex_Check(object)) {
      if (!convert || !PyNumber_Check(object)) return false;
    }
    Object number(PyLong_Check(object) ? Py_NewRef(object) : PyIndex_Check(object) ? PyNumber_Index(object) : PyNumber_Long(object));
    if (number.get() != nullptr && narrow(number.get(), value)) return true;
    PyErr_Clear();
    return false;
  }

 private:
  static bool narrow(PyObject* number, T& value) {
    if constexpr (std::is_unsigned_v<T>) {
      unsigned long long wide = PyLong_AsUnsignedLongLong(number);
      value = static_cast<T>(wide);
      return !PyErr_Occurred() && value == wide;
    } else {
      long long wide = PyLong_AsLongLong(number);
      value = static_cast<T>(wide);
      return !PyErr_Occurred() && value == wide;
    }
  }
};

template <class T>
struct From<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  using Value = T;
  static bool load(PyObject* object, Value& value, bool convert) {
    if (!PyFloat_Check(object) && !PyLong_Check(object) && !(convert && PyNumber_Check(object))) return false;
    if (!convert && !PyFloat_Check(object)) return false;
    Object number(PyNumber_Float(object));
    if (number.get() == nullptr) {
      PyErr_Clear();
      return false;
    }
    value = static_cast<T>(PyFloat_AS_DOUBLE(number.get()));
    return true;
  }
};

template <>
struct From<std::string> {
  using Value = std::string;
  static bool load(PyObject* object, Value& value, bool) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &size) : nullptr;
    if (text == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.assign(text, static_cast<size_t>(size));
    return true;
  }
};

template <class T>
struct From<std::optional<T>> {
  using Value = std::optional<typename From<T>::Value>;
  static bool load(PyObject* object, Value& value, bool convert) {
    if (object == Py_None) {
      value = std::nullopt;
      return true;
    }
    value.emplace();
    return From<T>::load(object, *value, convert);
  }
};

template <class T>
struct From<std::vector<T>> {
  using Value = std::vector<T>;
  static bool load(PyObject* object, Value& value, bool convert) {
    if (!PySequence_Check(object) || PyUnicode_Check(object) || PyBytes_Check(object)) return false;
    Object items(PySequence_Fast(object, "a sequence is expected"));
    if (items.get() == nullptr) {
      PyErr_Clear();
      return false;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); i++) {
      T item{};
      if (!From<T>::load(PySequence_Fast_GET_ITEM(items.get(), i), item, convert)) return false;
      value.push_back(std::move(item));
    }
    return true;
  }
};

// A view of what the caller keeps alive: the vector lives as long as the call.
template <class T>
struct From<c10::ArrayRef<T>> : From<std::vector<T>> {};

inline PyObject* to_python(None) { return Py_NewRef(Py_None); }
inline PyObject* to_python(std::nullopt_t) { return Py_NewRef(Py_None); }
inline PyObject* to_python(const at::Tensor& tensor) { return THPVariable_Wrap(tensor); }
inline PyObject* to_python(const char* text) { return PyUnicode_FromString(text); }
inline PyObject* to_python(const std::string& text) {
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
PyObject* to_python(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return PyBool_FromLong(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return PyFloat_FromDouble(static_cast<double>(value));
  } else if constexpr (std::is_unsigned_v<T>) {
    return PyLong_FromUnsignedLongLong(value);
  } else {
    return PyLong_FromLongLong(value);
  }
}
template <class T>
PyObject* to_python(const std::optional<T>& value);
template <class T>
PyObject* to_python(const std::vector<T>& values);
template <class... T>
PyObject* to_python(const std::tuple<T...>& values);
template <class A, class B>
PyObject* to_python(const std::pair<A, B>& values);

template <class T>
PyObject* to_python(const std::optional<T>& value) {
  return value ? to_python(*value) : Py_NewRef(Py_None);
}
template <class T>
PyObject* to_python(const std::vector<T>& values) {
  Object list(PyList_New(static_cast<Py_ssize_t>(values.size())));
  for (size_t i = 0; list.get() != nullptr && i < values.size(); i++) {
    PyObject* item = to_python(static_cast<const T&>(values[i]));
    if (item == nullptr) return nullptr;
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list.release();
}
template <class... T>
PyObject* to_python(const std::tuple<T...>& values) {
  return std::apply(
      [](const T&... items) -> PyObject* {
        Object list[] = {Object(), Object(to_python(items))...};
        Object tuple(PyTuple_New(sizeof...(T)));
        for (size_t i = 0; tuple.get() != nullptr && i < sizeof...(T); i++) {
          if (list[i + 1].get() == nullptr) return nullptr;
          PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), list[i + 1].release());
        }
        return tuple.release();
      },
      values);
}
template <class A, class B>
PyObject* to_python(const std::pair<A, B>& values) {
  return to_python(std::tuple<A, B>(values));
}

}  // namespace cuda_agent
