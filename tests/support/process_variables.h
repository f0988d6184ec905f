#pragma once

#include <map>
#include <optional>
#include <string>

#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv

namespace millrace::test {

/// Variables of the process's environment as long as this is there; then they are as before. One thread at a time.
class ProcessVariables {
 public:
  explicit ProcessVariables(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      const char* const before = ::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~ProcessVariables() {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }
  ProcessVariables(const ProcessVariables&) = delete;
  ProcessVariables& operator=(const ProcessVariables&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace millrace::test
