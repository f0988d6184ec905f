#include "millrace/tokenizer/metaspace_options.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/utf8.h"
#include "millrace/tokenizer/utf8_characters.h"

namespace millrace {

MetaspaceOptions MetaspaceOptions::read(const JsonNode& node) {
  node.require_members_among({"type", "replacement", "str_rep", "prepend_scheme", "add_prefix_space", "split"});
  MetaspaceOptions options;
  const JsonNode replacement = node.member("replacement");
  options.replacement = replacement.string();
  if (num_characters(options.replacement) != 1)
    replacement.fail(fmt::format("expected one character, found '{}'", excerpt(options.replacement)));
  if (const auto scheme = node.find("prepend_scheme")) {
    const std::string name = scheme->string();
    if (name == "always") {
      options.prepend = Prepend::kAlways;
    } else if (name == "first") {
      options.prepend = Prepend::kFirst;
    } else if (name == "never") {
      options.prepend = Prepend::kNever;
    } else {
      scheme->fail(fmt::format("expected 'always', 'first' or 'never', found '{}'", excerpt(name)));
    }
    if (const auto add = node.find("add_prefix_space"); add && !add->boolean() && options.prepend != Prepend::kNever) {
      add->fail("does not agree with prepend_scheme");
    }
  } else if (const auto add = node.find("add_prefix_space"); add && !add->boolean()) {
    options.prepend = Prepend::kNever;
  }
  if (const auto split = node.find("split")) options.split = split->boolean();
  return options;
}

nlohmann::ordered_json MetaspaceOptions::to_json() const {
  const char* scheme = prepend == Prepend::kAlways ? "always" : prepend == Prepend::kFirst ? "first" : "never";
  return {{"type", "Metaspace"}, {"replacement", replacement}, {"prepend_scheme", scheme}, {"split", split}};
}

}  // namespace millrace
