#include "millrace/command_line/command_line.h"

#include <array>
#include <stdexcept>

#include "millrace/command_line/number_options.h"

void use_command_line() {
  int rows = 3;
  boost::program_options::options_description options("Options");
  options.add_options()("rows", millrace::whole_number(rows, {1, 10}), "of a batch");
  const std::array<const char*, 3> words = {"program", "--rows", "7"};
  const auto given =
      millrace::parse_command_line(static_cast<int>(words.size()), words.data(), {.name = "program"}, options);
  if (!given || rows != 7) throw std::runtime_error("command_line");
}
