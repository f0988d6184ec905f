#include "examples/mlm/fill_mask_options.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/formats/error.h"

namespace millrace {

namespace po = boost::program_options;

std::optional<FillMaskOptions> parse_fill_mask_options(int argc, const char* const* argv) {
  FillMaskOptions options;
  std::string text_file;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("model", po::value(&options.model)->default_value(options.model), "folder that train_mlm wrote: OUT/model")
      ("ignore-config", po::value(&options.ignored_config_fields)->composing(),
       "pass over this field of the model's config.json, which is not known; may be repeated")
      ("top", po::value(&options.top)->default_value(options.top), "candidates for each [MASK]")
      ("text-file", po::value(&text_file), "further texts, one a line")
      ("logits", po::value(&options.logits),
       "also write the logits to this safetensors file: a tensor [tokens, vocabulary] for each text, named by its number")
      ("json", "one JSON object a text: ids, and for each [MASK] the candidates");
  po::options_description positional;
  positional.add_options()("text", po::value(&options.texts)->composing());
  // clang-format on
  const auto given =
      parse_command_line(argc, argv,
                         {.name = "fill_mask",
                          .about = "Prints what a trained masked language model proposes for each [MASK] of a text.",
                          .usage = "[options] TEXT..."},
                         visible, {"text..."}, positional);
  if (!given) return std::nullopt;
  options.json = given->contains("json");
  require_at_least("top", options.top, 1);
  if (!text_file.empty()) {
    std::ifstream stream(text_file);
    int64_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (line.find("[MASK]") == std::string::npos) {
        throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("no [MASK] in line {} of {}", number, text_file));
      }
      options.texts.push_back(line);
    }
    if (!stream.eof()) {
      throw ErrorException({.code = ErrorCode::kIo,
                            .message = fmt::format("cannot read the file: {}", std::strerror(errno)),
                            .shard = text_file});
    }
  }
  if (options.texts.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, "no text given; see fill_mask --help");
  }
  for (const std::string& text : options.texts) {
    if (text.find("[MASK]") == std::string::npos) {
      throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("no [MASK] in '{}'", text));
    }
  }
  return options;
}

}  // namespace millrace
