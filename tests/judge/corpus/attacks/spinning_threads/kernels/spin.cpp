#include <thread>

extern "C" void spin(int threads) {
    for (int n = 0; n < threads; ++n)
        std::thread([] {
            for (volatile unsigned long i = 0;; i = i + 1) {
            }
        }).detach();
}
