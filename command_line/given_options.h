#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <boost/program_options.hpp>

namespace millrace {

/// Whether an option is there with a value that is not its default one.
[[nodiscard]] bool was_given(const boost::program_options::variables_map& given, const char* option);

/// Throws `kInvalidArgument` with this message unless `holds`.
void require(bool holds, const std::string& message);

/// Throws `kInvalidArgument` for the first of these options that was given: `--NAME why`.
void refuse_given(const boost::program_options::variables_map& given, std::initializer_list<const char*> options,
                  const std::string& why);

/// Throws `kInvalidArgument` where two options, by their names, have one file or object, also by other paths: what is
/// written to it would replace what is read from it. Empty paths are none.
void require_different_files(std::initializer_list<std::pair<const char*, std::string>> files);

}  // namespace millrace
