// Linked into a program: with the environment variable MILLRACE_CLOCK_JUMPS the time of day goes back by a day and
// ahead by a year in turn, whenever it is asked for. The clocks that only count on are as they are.
#include <atomic>
#include <cstdlib>
#include <ctime>

#include <dlfcn.h>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const real = reinterpret_cast<decltype(&clock_gettime)>(::dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  static const bool jumps = std::getenv("MILLRACE_CLOCK_JUMPS") != nullptr;
  static std::atomic<unsigned> num_calls{0};
  constexpr time_t kDay = 24 * 60 * 60;
  if (jumps && clock == CLOCK_REALTIME) time->tv_sec += num_calls++ % 2 == 0 ? -kDay : 365 * kDay;
  return result;
}
