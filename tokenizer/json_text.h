#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace millrace {

/// A document as text, laid out as the Python package does it: two spaces for each level, and of each number the
/// shortest digits that give it back, so that readers that round otherwise round the same. Throws `kInvalidArgument`
/// for a number that is not finite.
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace millrace
