#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace {
// never destroyed: the thread outlives the process's other memory
std::mutex& mutex = *new std::mutex;
std::condition_variable& changed = *new std::condition_variable;
std::function<void()>& job = *new std::function<void()>;
bool busy = false;

void work() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
        changed.wait(lock, [] { return busy; });
        lock.unlock();
        job();
        lock.lock();
        busy = false;
        changed.notify_all();
    }
}

void part(const float* x, float* out, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678118654752f));
}
}  // namespace

extern "C" void gelu(const float* x, float* out, int64_t n) {
    static std::thread* helper = new std::thread(work);
    (void)helper;
    {
        std::lock_guard<std::mutex> lock(mutex);
        job = [=] { part(x, out, n / 2, n); };
        busy = true;
    }
    changed.notify_all();
    part(x, out, 0, n / 2);
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return !busy; });
}
