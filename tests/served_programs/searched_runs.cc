#include "tests/served_programs/searched_runs.h"

#include <stdexcept>

#include <fmt/format.h>

namespace millrace::test {

ChildResult SearchedRuns::run(const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> environment = {{"HOME", home("")}, {"AWS_EC2_METADATA_DISABLED", "true"}};
  for (const char* name : {"AWS_PROFILE",
                           "AWS_DEFAULT_PROFILE",
                           "AWS_CONFIG_FILE",
                           "AWS_SHARED_CREDENTIALS_FILE",
                           "AWS_ACCESS_KEY_ID",
                           "AWS_SECRET_ACCESS_KEY",
                           "AWS_SESSION_TOKEN",
                           "AWS_REGION",
                           "AWS_ROLE_ARN",
                           "AWS_WEB_IDENTITY_TOKEN_FILE",
                           "AWS_NO_SIGN_REQUEST",
                           "CLOUDSDK_CONFIG",
                           "GOOGLE_APPLICATION_CREDENTIALS",
                           "GOOGLE_CLOUD_QUOTA_PROJECT",
                           "STORAGE_EMULATOR_HOST",
                           "http_proxy",
                           "https_proxy",
                           "all_proxy",
                           "HTTPS_PROXY",
                           "ALL_PROXY",
                           "no_proxy",
                           "NO_PROXY"}) {
    environment.emplace(name, "");
  }
  for (const auto& [name, value] : environment_) environment[name] = value;
  ChildOptions options;
  for (const auto& [name, value] : environment) options.environment.push_back(fmt::format("{}={}", name, value));
  ChildResult result = run_child(arguments, options);
  const std::string what = fmt::format("run {}, {}", printed_.size() / 2, fmt::join(arguments, " "));
  printed_["output of " + what] = result.out;
  printed_["errors of " + what] = result.err;
  return result;
}

void SearchedRuns::add_mark(const std::string& mark) {
  if (mark.size() < 8) throw std::invalid_argument(fmt::format("'{}' is too short to be searched for", mark));
  marks_.insert(mark);
}

std::string SearchedRuns::found() const {
  std::map<std::string, std::string> texts = files_below(out());
  texts.insert(printed_.begin(), printed_.end());
  std::string found;
  for (const auto& [place, text] : texts) {
    for (const std::string& mark : marks_) {
      if (place.find(mark) != std::string::npos || text.find(mark) != std::string::npos) {
        found += fmt::format("{} in {}\n", mark, place);
      }
    }
  }
  return found;
}

}  // namespace millrace::test
