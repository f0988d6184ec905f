#include "millrace/formats/storage/process_identity.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

namespace millrace {
namespace {

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string this_machine() {
  const std::string boot = first_line_of("/proc/sys/kernel/random/boot_id");
  std::error_code error;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return boot.empty() || error ? std::string() : boot + ' ' + space;
}

// Field 22 of proc(5)'s stat; the name in field 2 may have blanks and parentheses. Of a process of which nothing is
// there but what its parent asks for: `ended`. Empty: nobody may see it, or there is none.
std::string start_of(int process) {
  const std::string stat = first_line_of(fmt::format("/proc/{}/stat", process));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream fields(stat.substr(name_end + 1));
  std::string state;
  fields >> state;
  if (state == "Z" || state == "X") return "ended";
  std::string field;
  for (int number = 4; number <= 22; ++number) fields >> field;
  return fields ? field : std::string();
}

}  // namespace

ProcessIdentity ProcessIdentity::own() {
  char host[256] = "";
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return {.host = host, .process = ::getpid(), .started = start_of(::getpid()), .machine = this_machine()};
}

std::optional<bool> ProcessIdentity::has_ended() const {
  if (machine.empty() || started.empty() || machine != this_machine()) return std::nullopt;
  const std::string now = start_of(process);
  if (!now.empty()) return now != started;
  // Processes of other users may be hidden.
  if (::kill(process, 0) != 0 && errno == ESRCH) return true;
  return std::nullopt;
}

std::string ProcessIdentity::to_string() const { return fmt::format("process {} on {}", process, host); }

}  // namespace millrace
