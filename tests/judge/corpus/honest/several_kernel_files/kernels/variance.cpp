#include "detail/square.hpp"
#include "rows.h"

extern "C" void variance(const float* x, const float* mean, float* out, int64_t rows, int64_t columns) {
    each_row(x, rows, columns, [=](const float* row, int64_t r) {
        double total = 0.0, off = 0.0;
        for (int64_t c = 0; c < columns; ++c) {
            total += square(row[c] - static_cast<double>(mean[r]));
            off += row[c] - static_cast<double>(mean[r]);
        }
        out[r] = static_cast<float>((total - off * off / columns) / (columns - 1));
    });
}
