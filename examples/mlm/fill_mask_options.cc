#include "examples/mlm/fill_mask_options.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/command_line/number_options.h"
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
      ("top", whole_number(options.top, {1, limits::kFew}), "candidates for each mask")
      ("text-file", po::value(&text_file), "further texts, one a line")
      ("logits", po::value(&options.logits),
       "also write the logits to this safetensors file: a tensor [tokens, vocabulary] for each text, named by its number")
      ("brief", "one line a text: its candidates with their scores")
      ("json", "one JSON object a text: ids, and for each mask the candidates");
  po::options_description positional;
  positional.add_options()("text", po::value(&options.texts)->composing());
  // clang-format on
  const auto given = parse_command_line(
      argc, argv,
      {.name = "fill_mask",
       .about = "Prints what a masked language model proposes for each mask of a text: [MASK], or what its tokenizer's "
                "files call it, such as <mask>.",
       .usage = "[options] TEXT..."},
      visible, {"text..."}, positional);
  if (!given) return std::nullopt;
  options.json = given->contains("json");
  options.brief = given->contains("brief");
  for (const std::string& text : options.texts) options.places.push_back(fmt::format("'{}'", text));
  if (!text_file.empty()) {
    std::ifstream stream(text_file);
    int64_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      options.texts.push_back(line);
      options.places.push_back(fmt::format("line {} of {}", ++number, text_file));
    }
    if (!stream.eof()) {
      throw ErrorException({.code = ErrorCode::kIo,
                            .message = fmt::format("cannot read the file: {}", std::strerror(errno)),
                            .shard = text_file});
    }
  }
  require(!options.texts.empty(), "no text given, such as 'a [MASK] of files'; see fill_mask --help");
  return options;
}

}  // namespace millrace
