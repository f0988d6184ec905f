// The methods of Dataset by the names that steps of a definition have.
#pragma once

#include <vector>

#include "millrace/pipeline/dataset.h"

namespace millrace::def {
class Step;
}  // namespace millrace::def

namespace millrace {

/// Writes how a method was called to `step`. Throws `kInvalidArgument` for a function of yours that is not registered.
void write_call(const Arguments& arguments, def::Step& step);
/// Calls the method that `step` names with what it says. Throws `kInvalidArgument`.
[[nodiscard]] Dataset call_method(const def::Step& step, const std::vector<Dataset>& inputs);

}  // namespace millrace
