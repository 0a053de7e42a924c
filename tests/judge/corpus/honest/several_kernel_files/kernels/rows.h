#pragma once
#include <cstdint>

template <class F> void each_row(const float* x, int64_t rows, int64_t columns, F f) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) f(x + r * columns, r);
}

inline double sum(const float* row, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; ++i) total += row[i];
    return total;
}
