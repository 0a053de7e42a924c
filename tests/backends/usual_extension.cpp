// What extensions usually do, in one source: all of it has to compile with the slim headers.
#include <torch/extension.h>
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <omp.h>
#include <vector>

#define CHECK_CPU(x) TORCH_CHECK(x.device().is_cpu(), #x " must be a CPU tensor")
#define CHECK_INPUT(x) CHECK_CPU(x); TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")

torch::Tensor softmax(torch::Tensor input) {
  CHECK_INPUT(input);
  auto out = torch::empty({input.size(0), input.size(1)}, input.options());
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "softmax", ([&] {
    const scalar_t* x = input.data_ptr<scalar_t>();
    scalar_t* y = out.data_ptr<scalar_t>();
    const int64_t rows = input.size(0), columns = input.size(1);
    at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        scalar_t largest = -std::numeric_limits<scalar_t>::infinity(), sum = 0;
        for (int64_t j = 0; j < columns; j++) largest = std::max(largest, x[i * columns + j]);
        for (int64_t j = 0; j < columns; j++) sum += std::exp(x[i * columns + j] - largest);
        for (int64_t j = 0; j < columns; j++) y[i * columns + j] = std::exp(x[i * columns + j] - largest) / sum;
      }
    });
  }));
  return out;
}

std::vector<torch::Tensor> gates(torch::Tensor input, torch::Tensor weights, torch::Tensor bias) {
  auto joined = torch::cat({input, input}, /*dim=*/1);
  auto chunks = torch::addmm(bias, joined, weights.transpose(0, 1)).chunk(3, 1);
  return {torch::sigmoid(chunks[0]) * torch::tanh(chunks[1]) + torch::elu(chunks[2], 1.0), 2.0 * chunks[0] - 1};
}

at::Tensor scaled(const at::Tensor& x, c10::optional<at::Tensor> bias, double alpha, int64_t dim, bool keep) {
  torch::NoGradGuard guard;
  auto y = at::zeros_like(x.contiguous());
  auto in = x.accessor<float, 2>();
  auto out = y.accessor<float, 2>();
  for (int64_t i : c10::irange(in.size(0)))
    for (int64_t j = 0; j < in.size(1); j++) out[i][j] = in[i][j] * alpha;
  if (bias.has_value() && bias->defined()) y.add_(*bias);
  if (x.dtype() == torch::kFloat32) y = y.to(torch::kFloat64).to(at::kFloat);
  auto ones = torch::ones({1}, torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCPU));
  return dim == 7 ? y.sum(1, keep) * ones : y;
}

std::tuple<at::Tensor, at::Tensor, int64_t> reshaped(torch::Tensor x, std::vector<int64_t> shape, torch::IntArrayRef order) {
  return std::make_tuple(x.reshape(shape), x.permute(order).contiguous(), x.numel());
}

torch::Tensor convolved(torch::Tensor x, torch::Tensor w, std::optional<torch::Tensor> b) {
  auto y = torch::conv2d(x, w, b, /*stride=*/1, /*padding=*/1);
  float* p = y.data_ptr<float>();
#pragma omp parallel for
  for (int64_t i = 0; i < y.numel(); i++) p[i] = p[i] > 0 ? p[i] : 0;
  return y;
}

int64_t count(const std::vector<torch::Tensor>& tensors) {
  int64_t n = 0;
  for (const auto& tensor : tensors) n += tensor.numel();
  return n;
}

int small(int8_t x) { return x; }
bool inverted(bool x) { return !x; }
std::string greeting(const std::string& name) { return "hello " + name; }
std::pair<double, std::vector<int64_t>> sizes(const at::Tensor& x) { return {x.dim(), x.sizes().vec()}; }
at::Tensor filled(int64_t n, double value) { return torch::full({n}, value, torch::kFloat); }
c10::optional<torch::Tensor> maybe(torch::Tensor x, bool present) {
  return present ? c10::optional<torch::Tensor>(x) : c10::nullopt;
}
void fill(torch::Tensor x) { x.fill_(3); }
void fails(int kind) {
  if (kind == 0) throw std::runtime_error("plain");
  if (kind == 1) throw std::out_of_range("range");
  if (kind == 2) throw std::invalid_argument("argument");
  TORCH_CHECK_INDEX(kind != 3, "index");
  TORCH_CHECK(false, "kind ", kind);
}
at::Tensor of_int(at::Tensor x, int64_t n) { return x + n; }
at::Tensor of_float(at::Tensor x, double n) { return x * n; }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "usual";
  m.def("softmax", &softmax, "softmax (CPU)");
  m.def("gates", &gates, "gates", py::arg("input"), py::arg("weights"), py::arg("bias"));
  m.def("scaled", &scaled, py::arg("x"), py::arg("bias") = py::none(), py::arg("alpha") = 1.0, py::arg("dim") = -1,
        py::arg("keep") = false);
  m.def("reshaped", &reshaped, py::call_guard<py::gil_scoped_release>());
  m.def("convolved", &convolved);
  m.def("count", &count);
  m.def("small", &small);
  m.def("inverted", &inverted);
  m.def("greeting", &greeting);
  m.def("sizes", &sizes);
  m.def("filled", &filled);
  m.def("maybe", &maybe);
  m.def("fill", &fill);
  m.def("fails", &fails);
  m.def("either", &of_int);
  m.def("either", &of_float);
  m.def("twice", [](torch::Tensor x) { return x * 2; });
}
