#pragma once

#include <string>
#include <string_view>

namespace millrace {

/// What a program came to.
struct ProgramResult {
  std::string output;  ///< all that it wrote to its standard output
  std::string ending;  ///< how it ended: `ended with status 1`, `was ended by signal 9 (Killed)`
};

/// Runs a program whose executable file is in memory, to its end: the way to use a library that cannot be in the same
/// process (docs/decisions/sentencepiece_in_its_own_process.md). Input and output are files in memory, so neither side
/// waits for the other, and a program that ends early hurts nobody. It has the caller's environment, standard error and
/// cores, and no signal is blocked.
///
/// `executable`: an ELF file. `name`: of the program, for `ps` and for errors. Throws `kIo` where it cannot be started,
/// `kOutOfMemory` where its files do not fit into memory. Any thread.
[[nodiscard]] ProgramResult run_embedded_program(std::string_view name, std::string_view executable,
                                                 std::string_view input);

}  // namespace millrace
