#include "millrace/command_line/given_options.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

bool was_given(const boost::program_options::variables_map& given, const char* option) {
  return given.contains(option) && !given[option].defaulted();
}

void refuse_given(const boost::program_options::variables_map& given, std::initializer_list<const char*> options,
                  const std::string& why) {
  for (const char* const option : options) {
    if (!was_given(given, option)) continue;
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("--{} {}", option, why));
  }
}

}  // namespace millrace
