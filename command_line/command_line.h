#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/program_options.hpp>

namespace millrace {

/// What `--help` says above the options.
struct ProgramText {
  std::string name = {};
  std::string about = {};  ///< what it does; whole lines
  std::string usage = {};  ///< arguments after the program's name
};

/// Parses a command line, and adds `--help`; nothing when that was asked for and printed. Options are never guessed
/// from their beginnings; `positional` names the options that take the arguments without a name, the last of them all
/// that are left. Options that `more` declares are taken, but not shown. Each is text or a
/// number with limits (number_options.h), which are looked at before `--help` is. Throws `kInvalidArgument` with one
/// line.
[[nodiscard]] std::optional<boost::program_options::variables_map> parse_command_line(
    int argc, const char* const* argv, const ProgramText& text, boost::program_options::options_description& options,
    const std::vector<std::string>& positional = {}, const boost::program_options::options_description& more = {});

/// Runs a program's body and returns its exit code: 1 after an exception, whose message goes to standard error after
/// the program's name, in one line; 1 as well when standard output took not all of what was written to it. Memory that
/// ends where nothing can be caught, on a thread of a library, ends the process in the same way. The process may open
/// as many files as its hard limit says.
int run_program(std::string_view name, const std::function<int()>& body);

}  // namespace millrace
