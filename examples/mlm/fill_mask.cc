// Proposes words for a mask with a trained model; see fill_mask --help.
#include <algorithm>
#include <iostream>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "examples/mlm/fill_mask_options.h"
#include "examples/mlm/mask_filler.h"
#include "millrace/command_line/command_line.h"
#include "millrace/command_line/given_options.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/safetensors/writer.h"
#include "millrace/trainer/run/local_copy.h"
#include "millrace/trainer/run/output_folder.h"

namespace {

using namespace millrace;

nlohmann::ordered_json to_json(const std::string& text, const FilledText& filled) {
  nlohmann::ordered_json json = {{"text", text}, {"ids", filled.ids}, {"masks", nlohmann::ordered_json::array()}};
  for (const auto& candidates : filled.masks) {
    nlohmann::ordered_json& list = json["masks"].emplace_back(nlohmann::ordered_json::array());
    for (const MaskCandidate& candidate : candidates) {
      list.push_back({{"score", candidate.score},
                      {"token", candidate.token},
                      {"token_str", candidate.token_str},
                      {"sequence", candidate.sequence}});
    }
  }
  return json;
}

void print(const std::string& text, const FilledText& filled) {
  std::cout << text << "\n";
  for (const auto& candidates : filled.masks) {
    std::cout << fmt::format("  {:>8}  {:>6}  {:<16}  {}\n", "score", "token", "token_str", "sequence");
    for (const MaskCandidate& candidate : candidates) {
      std::cout << fmt::format("  {:8.4f}  {:6}  {:<16}  {}\n", candidate.score, candidate.token, candidate.token_str,
                               candidate.sequence);
    }
  }
}

// The texts below each other, so that their candidates stand below each other as well.
void print_brief(const std::string& text, const FilledText& filled, size_t width) {
  std::cout << fmt::format("{:<{}}", text, width);
  for (const auto& candidates : filled.masks) {
    for (const MaskCandidate& candidate : candidates) {
      std::cout << fmt::format("  {} {:.2f}", candidate.token_str, candidate.score);
    }
    std::cout << "\n";
  }
}

int run(int argc, char** argv) {
  const auto options = parse_fill_mask_options(argc, argv);
  if (!options) return 0;
  MaskFiller filler(model_folder(local_copy(options->model), "train_mlm"),
                    {.ignored_config_fields = options->ignored_config_fields});
  for (size_t i = 0; i < options->texts.size(); ++i) {
    require(options->texts[i].find(filler.mask()) != std::string::npos,
            fmt::format("no {0} in {1}; write {0} in the place of a word", filler.mask(), options->places[i]));
  }
  const size_t width = std::ranges::max_element(options->texts, {}, &std::string::size)->size();
  std::vector<FilledText> kept;  // their logits are
  std::vector<NamedTensor> logits;
  for (const std::string& text : options->texts) {
    FilledText filled = filler.fill(text, options->top);
    if (options->json) {
      std::cout << json_line(to_json(text, filled)) << "\n";
    } else if (options->brief) {
      print_brief(text, filled, width);
    } else {
      print(text, filled);
    }
    if (!options->logits.empty()) kept.push_back(std::move(filled));
  }
  if (options->logits.empty()) return 0;
  logits.reserve(kept.size());
  for (const FilledText& filled : kept) {
    logits.push_back({.name = fmt::format("{}", logits.size()),
                      .type = TensorType::kF32,
                      .shape = {std::ssize(filled.ids), filler.vocab_size()},
                      .bytes = std::as_bytes(std::span(filled.logits))});
  }
  write_safetensors(options->logits, logits);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return millrace::run_program("fill_mask", [&] { return run(argc, argv); });
}
