#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace millrace::test {

/// A file of JSON. Throws std::runtime_error naming the file when there is none, or when it is no JSON.
nlohmann::json read_json(const std::string& path);

}  // namespace millrace::test
