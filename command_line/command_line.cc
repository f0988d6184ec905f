#include "millrace/command_line/command_line.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>

#include <fmt/format.h>
#include <sys/resource.h>

#include "millrace/command_line/number_options.h"
#include "millrace/formats/error.h"

namespace millrace {

namespace po = boost::program_options;

std::optional<po::variables_map> parse_command_line(int argc, const char* const* argv, const ProgramText& text,
                                                    po::options_description& options,
                                                    const std::vector<std::string>& positional,
                                                    const po::options_description& more) {
  options.add_options()("help,h", "print this text");
  po::options_description all;
  all.add(options).add(more);
  require_limits(all);
  po::positional_options_description places;
  for (const std::string& name : positional) {
    const bool all_left = name.ends_with("...");
    places.add(name.substr(0, name.size() - (all_left ? 3 : 0)).c_str(), all_left ? -1 : 1);
  }
  po::variables_map given;
  const int style = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  try {
    try {
      po::store(po::command_line_parser(argc, argv).options(all).positional(places).style(style).run(), given);
    } catch (const po::invalid_command_line_syntax& error) {
      if (error.kind() == po::invalid_syntax::empty_adjacent_parameter) {
        refuse_empty_number(all, error.get_option_name());
      }
      throw;
    }
    if (!given.contains("help")) po::notify(given);
  } catch (const po::too_many_positional_options_error&) {
    std::string word;  // the first that has no place
    for (const auto& option : po::command_line_parser(argc, argv).options(all).style(style).run().options) {
      if (option.position_key == static_cast<int>(places.max_total_count())) word = option.value.front();
    }
    throw ErrorException(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' is a word too many (patterns such as 'data/*.tfrecord' go in quotes, so that "
                    "the shell leaves them alone); see {} --help",
                    word, text.name));
  } catch (const NumberOptionError& error) {
    throw ErrorException(ErrorCode::kInvalidArgument, error.what());
  } catch (const po::error& error) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}; see {} --help", error.what(), text.name));
  }
  if (given.contains("help")) {
    std::cout << text.about << "\n\nusage: " << text.name << " " << text.usage << "\n\n" << options;
    return std::nullopt;
  }
  return given;
}

namespace {

// The usual 1,024 are a limit of select(), which nothing here calls; each shard that is read in turn is one.
void allow_all_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string_view running_program;
std::terminate_handler terminate_before = nullptr;

// What nobody can catch: memory that ends inside a library, on one of its threads. Everything else is a defect, of
// which the system is to keep what it can.
[[noreturn]] void end_without_memory() {
  bool is_memory = false;
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    is_memory = true;
  } catch (...) {
  }
  if (is_memory) {
    std::fprintf(stderr, "%.*s: out of memory\n", static_cast<int>(running_program.size()), running_program.data());
    std::_Exit(1);
  }
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

}  // namespace

int run_program(std::string_view name, const std::function<int()>& body) {
  allow_all_open_files();
  running_program = name;
  if (std::get_terminate() != end_without_memory) terminate_before = std::set_terminate(end_without_memory);
  try {
    const int exit_code = body();
    if (std::cout.flush()) return exit_code;
    std::cerr << name << ": cannot write to standard output\n";
  } catch (const std::bad_alloc&) {
    std::cerr << name << ": out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << "\n";
  }
  return 1;
}

}  // namespace millrace
