#include <cstdint>
#include <vector>

extern "C" void variance(const float* x, float* out, int64_t rows, int64_t columns) {
    static thread_local std::vector<double> scratch;
    scratch.resize(columns);
    for (int64_t r = 0; r < rows; ++r) {
        double mean = 0.0, sum = 0.0;
        for (int64_t c = 0; c < columns; ++c) mean += scratch[c] = x[r * columns + c];
        mean /= static_cast<double>(columns);
        for (int64_t c = 0; c < columns; ++c) sum += (scratch[c] - mean) * (scratch[c] - mean);
        out[r] = static_cast<float>(sum / static_cast<double>(columns - 1));
    }
}
