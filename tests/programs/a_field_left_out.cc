// A struct whose description leaves a member out must not compile: compiled by a test, not part of any program. With
// MILLRACE_ALL_FIELDS nothing is left out.

#include "millrace/ops/arguments.h"

namespace {

struct Options {
  int first = 1;
  bool second = false;
  std::string third = "x";

  static constexpr auto fields() {
    using O = Options;
    return millrace::describe<O>("Options", millrace::field::stream<&O::first>,
#ifdef MILLRACE_ALL_FIELDS
                                 millrace::field::speed<&O::second>,
#endif
                                 millrace::field::stream<&O::third>);
  }
};

}  // namespace

int main() { return Options::fields().name.empty() ? 1 : 0; }
