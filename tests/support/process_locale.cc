#include "tests/support/process_locale.h"

#include <cstdlib>
#include <locale>
#include <stdexcept>

#include "tests/support/child_process.h"
#include "tests/support/sanitized.h"

// The C library keeps what it made of LOCPATH and forgets where.
#ifdef MILLRACE_ADDRESS_SANITIZED
#include <sanitizer/lsan_interface.h>
#endif

namespace millrace::test {

ProcessLocale::ProcessLocale(const std::string& name) : name_(name + ".UTF-8") {
  const ChildResult made =
      run_child({"/usr/bin/localedef", "--inputfile", name, "--charmap", "UTF-8", folder_.path(name_)});
  ::setenv("LOCPATH", folder_.path().c_str(), 1);
#ifdef MILLRACE_ADDRESS_SANITIZED
  const __lsan::ScopedDisabler of_the_library;
#endif
  try {
    std::locale::global(std::locale(name_));
  } catch (const std::runtime_error&) {
    throw std::runtime_error("no locale " + name_ + " (package locales): " + made.err);
  }
}

ProcessLocale::~ProcessLocale() {
  std::locale::global(std::locale::classic());
  ::unsetenv("LOCPATH");
}

}  // namespace millrace::test
