// Linked into a program together with file_faults.cc: the environment variable MILLRACE_FILE_FAULT, `kill=CALL` or
// `full=CALL`, then puts a fault into its file calls from its start. MILLRACE_LOCKS=none: no file system has locks.
#include <cerrno>
#include <cstdlib>
#include <string>

#include "tests/programs/file_faults.h"

namespace millrace::test {
namespace {

const bool armed = [] {
  if (const char* locks = std::getenv("MILLRACE_LOCKS"); locks != nullptr && locks == std::string("none")) {
    replace_flock([](int, int) {
      errno = ENOLCK;
      return -1;
    });
  }
  const char* text = std::getenv("MILLRACE_FILE_FAULT");
  if (text == nullptr) return false;
  const std::string fault = text;
  const size_t sign = fault.find('=');
  arm_file_fault(fault.substr(0, sign) == "kill" ? FileFault::kKill : FileFault::kDiskFull,
                 std::stoll(fault.substr(sign + 1)));
  return true;
}();

}  // namespace
}  // namespace millrace::test
