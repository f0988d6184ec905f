#include "tests/programs/file_faults.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace millrace::test {
namespace {

std::atomic<int64_t> faulty_call{0};  // 0: none
std::atomic<int64_t> num_calls{0};
std::atomic<FileFault> armed_fault{FileFault::kKill};
std::function<int(int, int)> instead_of_flock;

enum class Needs { kRoom, kNothing };

void die() { ::kill(::getpid(), SIGKILL); }

// Whether the call that is about to be made gets the fault.
bool due(Needs needs) {
  const int64_t at = faulty_call;
  if (at == 0) return false;
  if (armed_fault == FileFault::kKill) return ++num_calls == at;
  return needs == Needs::kRoom && ++num_calls >= at;
}

// For calls that have no middle: true when the call fails.
bool fails(Needs needs) {
  if (!due(needs)) return false;
  if (armed_fault == FileFault::kKill) die();
  errno = ENOSPC;
  return true;
}

// The C library's function that ours of the same name and type stands in front of.
template <typename Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void arm_file_fault(FileFault fault, int64_t call) {
  armed_fault = fault;
  num_calls = 0;
  faulty_call = call;
}

void disarm_file_fault() { faulty_call = 0; }

void replace_flock(std::function<int(int file, int operation)> flock) { instead_of_flock = std::move(flock); }

int real_flock(int file, int operation) {
  static auto* const real = next(&flock, "flock");
  return real(file, operation);
}

}  // namespace millrace::test

using millrace::test::armed_fault;
using millrace::test::die;
using millrace::test::due;
using millrace::test::fails;
using millrace::test::FileFault;
using millrace::test::instead_of_flock;
using millrace::test::Needs;
using millrace::test::next;

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = next(&open, "open");
  if ((flags & O_CREAT) == 0 && (flags & O_TMPFILE) != O_TMPFILE) return real(path, flags);
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  return fails(Needs::kRoom) ? -1 : real(path, flags, mode);
}

ssize_t write(int file, const void* bytes, size_t count) {
  static auto* const real = next(&write, "write");
  if (!due(Needs::kRoom)) return real(file, bytes, count);
  const ssize_t written = count > 1 ? real(file, bytes, count / 2) : 0;
  if (armed_fault == FileFault::kKill) die();
  if (written > 0) return written;
  errno = ENOSPC;
  return -1;
}

int fsync(int file) {
  static auto* const real = next(&fsync, "fsync");
  return fails(Needs::kNothing) ? -1 : real(file);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next(&mkdir, "mkdir");
  return fails(Needs::kRoom) ? -1 : real(path, mode);
}

int link(const char* from, const char* to) noexcept {
  static auto* const real = next(&link, "link");
  return fails(Needs::kRoom) ? -1 : real(from, to);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next(&rename, "rename");
  return fails(Needs::kNothing) ? -1 : real(from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static auto* const real = next(&renameat2, "renameat2");
  return fails(Needs::kNothing) ? -1 : real(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) noexcept {
  static auto* const real = next(&unlink, "unlink");
  return fails(Needs::kNothing) ? -1 : real(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const real = next(&unlinkat, "unlinkat");
  return fails(Needs::kNothing) ? -1 : real(folder, path, flags);
}

int flock(int file, int operation) noexcept {
  return instead_of_flock ? instead_of_flock(file, operation) : millrace::test::real_flock(file, operation);
}

}  // extern "C"
