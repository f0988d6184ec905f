#include "millrace/command_line/given_options.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

bool was_given(const boost::program_options::variables_map& given, const char* option) {
  return given.contains(option) && !given[option].defaulted();
}

void require(bool holds, const std::string& message) {
  if (!holds) throw ErrorException(ErrorCode::kInvalidArgument, message);
}

void refuse_given(const boost::program_options::variables_map& given, std::initializer_list<const char*> options,
                  const std::string& why) {
  for (const char* const option : options) require(!was_given(given, option), fmt::format("--{} {}", option, why));
}

}  // namespace millrace
