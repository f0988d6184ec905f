#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// Gives the value of a variable, or nothing where it is not set or empty. Any thread.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// Of this process.
[[nodiscard]] std::optional<std::string> process_environment(std::string_view name);

}  // namespace millrace
