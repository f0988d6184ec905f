#include "tests/support/process_locale.h"

#include <cstdlib>
#include <locale>
#include <stdexcept>

#include "tests/support/child_process.h"
#include "tests/support/sanitized.h"

// The C library keeps what it made of LOCPATH and forgets where. Of other programs it is a library below libcurl that
// asks for a locale before main.
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

std::vector<std::string> ProcessLocale::environment() const {
  std::vector<std::string> variables = {"LOCPATH=" + folder_.path(), "LC_ALL=" + name_};
#ifdef MILLRACE_ADDRESS_SANITIZED
  const std::string leaks = folder_.path("leaks");
  write_file(leaks, "leak:argz_add_sep\n");
  variables.push_back("LSAN_OPTIONS=print_suppressions=0:suppressions=" + leaks);
#endif
  return variables;
}

}  // namespace millrace::test
