#include "millrace/trainer/stop_signals.h"

#include <atomic>
#include <csignal>

#include <unistd.h>

namespace millrace {
namespace {

// A signal handler can reach nothing but globals; lock-free atomics are safe in one.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);
struct sigaction previous_interrupt;
struct sigaction previous_terminate;

void handle(int signal) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
}

}  // namespace

StopSignals::StopSignals() {
  first_signal.store(0);
  struct sigaction action = {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_interrupt);
  ::sigaction(SIGTERM, &action, &previous_terminate);
}

StopSignals::~StopSignals() {
  ::sigaction(SIGINT, &previous_interrupt, nullptr);
  ::sigaction(SIGTERM, &previous_terminate, nullptr);
}

bool StopSignals::requested() const { return first_signal.load() != 0; }

int StopSignals::exit_code() const { return requested() ? 128 + first_signal.load() : 0; }

}  // namespace millrace
