#include "tests/served_programs/searched_runs.h"

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace millrace::test {
namespace {

constexpr size_t kLeastMark = 8;

}  // namespace

ChildResult SearchedRuns::run(const std::vector<std::string>& arguments) {
  return note(arguments, run_child(arguments, options()));
}

ChildResult SearchedRuns::run_until(const std::vector<std::string>& arguments, const std::function<bool()>& is_due) {
  ChildProcess child(arguments, options());
  while (child.running() && !is_due()) {
    child.take_output();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  child.signal(SIGKILL);
  return note(arguments, child.wait());
}

ChildOptions SearchedRuns::options() const {
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
  return options;
}

ChildResult SearchedRuns::note(const std::vector<std::string>& arguments, ChildResult result) {
  const std::string what = fmt::format("run {}, {}", num_runs_++, fmt::join(arguments, " "));
  texts_["output of " + what] = result.out;
  texts_["errors of " + what] = result.err;
  return result;
}

void SearchedRuns::add_mark(const std::string& mark) {
  if (mark.size() < kLeastMark) throw std::invalid_argument(fmt::format("'{}' is too short to be searched for", mark));
  marks_.insert(mark);
}

std::string SearchedRuns::found() const {
  // By how they begin, so that a text is gone through once: each request has a mark of its own.
  std::unordered_multimap<std::string_view, std::string_view> marks;
  std::array<bool, 256> begins{};
  for (const std::string_view mark : marks_) {
    marks.emplace(mark.substr(0, kLeastMark), mark);
    begins[static_cast<unsigned char>(mark[0])] = true;
  }
  const auto marks_in = [&](std::string_view text) {
    std::set<std::string_view> in;
    for (size_t at = 0; at + kLeastMark <= text.size(); ++at) {
      if (!begins[static_cast<unsigned char>(text[at])]) continue;
      const auto [begin, end] = marks.equal_range(text.substr(at, kLeastMark));
      for (auto mark = begin; mark != end; ++mark) {
        if (text.substr(at).starts_with(mark->second)) in.insert(mark->second);
      }
    }
    return in;
  };
  std::map<std::string, std::string> texts = files_below(out());
  texts.insert(texts_.begin(), texts_.end());
  std::string found;
  for (const auto& [place, text] : texts) {
    std::set<std::string_view> in = marks_in(text);
    in.merge(marks_in(place));
    for (const std::string_view mark : in) found += fmt::format("{} in {}\n", mark, place);
  }
  return found;
}

}  // namespace millrace::test
