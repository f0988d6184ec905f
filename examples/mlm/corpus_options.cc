#include "examples/mlm/corpus_options.h"

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

namespace po = boost::program_options;

void add_corpus_options(po::options_description& description, CorpusOptions& options) {
  const auto set_invalid_utf8 = [&options](const std::string& name) {
    if (name != "refuse" && name != "replace") {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("--invalid-utf8 is '{}', must be refuse or replace", name));
    }
    options.invalid_utf8 = name == "replace" ? InvalidUtf8::kReplace : InvalidUtf8::kRefuse;
  };
  // clang-format off
  description.add_options()
      ("text", po::value(&options.files)->multitoken()->composing(),
       fmt::format("text files, plain or gzip, a text a line. Default: {}, cleaned", kDefaultCorpus).c_str())
      ("packages", po::value(&options.packages),
       "in place of --text the descriptions in this list of packages, as examples/packages/fetch.sh writes it")
      ("invalid-utf8", po::value<std::string>()->default_value("refuse")->notifier(set_invalid_utf8),
       "bytes of --text that are not UTF-8: refuse, or replace by U+FFFD");
  // clang-format on
}

}  // namespace millrace
