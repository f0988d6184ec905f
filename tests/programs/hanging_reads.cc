// Linked into a program: with the environment variable MILLRACE_HANG_READS=N its N-th positioned read of a file and all
// later ones never return, as on a network file system whose server is gone.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

std::atomic<int64_t> num_reads{0};

int64_t first_to_hang() {
  static const int64_t first = [] {
    const char* text = std::getenv("MILLRACE_HANG_READS");
    return text == nullptr ? INT64_MAX : std::stoll(text);
  }();
  return first;
}

}  // namespace

extern "C" {

// What the page cache holds is read here; the read that hangs is not in it.
ssize_t preadv2(int file, const iovec* parts, int count, off_t offset, int flags) {
  static auto* const real = reinterpret_cast<decltype(&preadv2)>(::dlsym(RTLD_NEXT, "preadv2"));
  if (num_reads.load() + 1 < first_to_hang()) {
    ++num_reads;
    return real(file, parts, count, offset, flags);
  }
  errno = EAGAIN;
  return -1;
}

ssize_t pread(int file, void* bytes, size_t count, off_t offset) {
  static auto* const real = reinterpret_cast<decltype(&pread)>(::dlsym(RTLD_NEXT, "pread"));
  if (++num_reads < first_to_hang()) return real(file, bytes, count, offset);
  for (;;) ::pause();
}

}  // extern "C"
