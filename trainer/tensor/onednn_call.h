#pragma once

#include <csignal>

// Of the OpenMP API: GCC's omp.h is not where clang-tidy looks.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int num_threads);
}

namespace millrace {

/// What a call of oneDNN needs around it, for as long as this lives, on the calling thread.
///
/// One OpenMP thread: Debian's oneDNN splits work over several, but replicas already fill the cores, and a sum must not
/// depend on how many there are. The setting belongs to the calling thread alone, and is given back.
///
/// Signals wait: while it works, the stack pointer of oneDNN before 3.11 may point into its work space on the heap, and
/// what the system puts below it to call a signal handler overwrites the heap (its issue 4845). Of signals that are for
/// the whole process, other threads may take them meanwhile. Those of faults do not wait: a crash handler shall see
/// what the call itself does wrong.
class OnednnCall {
 public:
  OnednnCall() : threads_before_(omp_get_max_threads()) {
    if (threads_before_ != 1) omp_set_num_threads(1);
    sigset_t others;
    ::sigfillset(&others);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) ::sigdelset(&others, fault);
    ::pthread_sigmask(SIG_BLOCK, &others, &signals_before_);
  }
  ~OnednnCall() {
    ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
    if (threads_before_ != 1) omp_set_num_threads(threads_before_);
  }
  OnednnCall(const OnednnCall&) = delete;
  OnednnCall& operator=(const OnednnCall&) = delete;

 private:
  int threads_before_;
  sigset_t signals_before_;
};

}  // namespace millrace
