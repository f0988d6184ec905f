#include "tests/trainer/golden/json_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace millrace::test {

nlohmann::json read_json(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
  try {
    return nlohmann::json::parse(stream);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
}

}  // namespace millrace::test
