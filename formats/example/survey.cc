#include "millrace/formats/example/survey.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "millrace/formats/example/map_entries.h"
#include "millrace/formats/example/value_list.h"
#include "millrace/formats/example/wire.h"

namespace millrace {
namespace {

using wire::kDelimited;
using wire::tag;
using wire::Wire;

// The keys of a SequenceExample's feature lists. None where the field holds anything else, which an Example may have.
std::vector<std::string> keys_of_steps(std::string_view feature_lists) {
  std::vector<std::string> keys;
  try {
    for (Wire all(feature_lists, wire::kFeaturesDepth); !all.done();) {
      const uint32_t inner = all.read_tag();
      if (inner != tag(1, kDelimited)) return {};
      const std::string_view key = wire::read_entry(all.delimited(), wire::kEntryDepth).key;
      wire::check_key(key);
      keys.emplace_back(key);
    }
  } catch (const wire::Malformed&) {
    return {};
  }
  return keys;
}

// Of the last entry with each key, as protobuf's maps have it. Adds the keys of steps.
std::map<std::string, wire::ValueList, std::less<>> features_of(std::string_view record,
                                                                std::vector<std::string>& steps) {
  std::map<std::string, wire::ValueList, std::less<>> features;
  for (Wire example(record, wire::kExampleDepth); !example.done();) {
    const uint32_t field = example.read_tag();
    if (field == tag(2, kDelimited)) {
      std::ranges::move(keys_of_steps(example.delimited()), std::back_inserter(steps));
      continue;
    }
    if (field != tag(1, kDelimited)) {
      example.skip(field);
      continue;
    }
    for (Wire all(example.delimited(), wire::kFeaturesDepth); !all.done();) {
      const uint32_t inner = all.read_tag();
      if (inner != tag(1, kDelimited)) {
        all.skip(inner);
        continue;
      }
      const wire::Entry entry = wire::read_entry(all.delimited(), wire::kEntryDepth);
      wire::check_key(entry.key);
      wire::ValueList list = wire::list_of(entry);
      wire::check_values(list);
      features.insert_or_assign(std::string(entry.key), std::move(list));
    }
  }
  return features;
}

std::string_view builder_name(DType stored) {
  switch (stored) {
    case DType::kFloat32: return "DType::kFloat32";
    case DType::kBytes: return "DType::kBytes";
    default: return "DType::kInt64";
  }
}

// UTF-8 as a literal of C++, also in front of digits; a std::string where a zero byte would end it.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1 = byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0;  // U+0080 to U+009F
    if (byte == '"' || byte == '\\') {
      out += {'\\', text[i]};
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\{:03o}", byte);
    } else if (is_c1) {
      out += fmt::format("\\{:03o}\\{:03o}", byte, static_cast<unsigned char>(text[++i]));
    } else {
      out += text[i];
    }
  }
  return out + (text.find('\0') == std::string_view::npos ? "\"" : "\"s");
}

}  // namespace

void ExampleSurvey::add(std::string_view record) {
  try {
    std::vector<std::string> steps;
    const auto lists = features_of(record, steps);
    for (const auto& [key, list] : lists) {
      const auto known = features_.find(key);
      if (!list.kind || known == features_.end() || known->second.stored == *list.kind) continue;
      throw wire::Malformed{fmt::format("feature '{}' holds {}, and {} in an earlier record", key,
                                        millrace::to_string(*list.kind), millrace::to_string(known->second.stored))};
    }
    steps_.insert(steps.begin(), steps.end());
    for (const auto& [key, list] : lists) {
      if (key.empty()) {
        has_unnamed_ = true;
        continue;
      }
      if (!list.kind) {
        if (!features_.contains(key)) without_values_.insert(key);
        continue;
      }
      without_values_.erase(key);
      const int64_t count = wire::count_values(list);
      Feature& feature = features_.try_emplace(key, Feature{*list.kind, 0, count, count}).first->second;
      ++feature.records;
      feature.least = std::min(feature.least, count);
      feature.most = std::max(feature.most, count);
    }
  } catch (const wire::Malformed& malformed) {
    throw ErrorException(malformed.to_error(record, nullptr));
  }
  ++num_records_;
}

std::vector<FeatureDescription> ExampleSurvey::proposal() const {
  std::vector<FeatureDescription> descriptions;
  for (const auto& [key, feature] : features_) {
    const bool fixed = feature.records == num_records_ && feature.least == feature.most && feature.most > 0;
    const Shape shape = feature.most == 1 ? Shape{} : Shape{feature.most};
    descriptions.push_back(fixed ? fixed_len(key, shape, feature.stored) : var_len(key, feature.stored));
  }
  return descriptions;
}

std::vector<std::string> ExampleSurvey::left_out() const {
  std::vector<std::string> texts;
  if (has_unnamed_) texts.emplace_back("\"\", a feature without a name");
  for (const std::string& key : without_values_) {
    texts.push_back(literal(key) + ", of which no record has a value, so that its type is not known");
  }
  for (const std::string& key : steps_) {
    texts.push_back(literal(key) + ", the steps of SequenceExamples, which parse_sequence_example reads");
  }
  return texts;
}

std::string ExampleSurvey::to_string() const {
  std::string text = "parse_example({\n";
  for (const FeatureDescription& description : proposal()) {
    const Feature& feature = features_.at(description.key);
    const std::string_view stored = builder_name(feature.stored);
    std::string call;
    if (description.kind == FeatureDescription::kVarLen) {
      call = fmt::format("var_len({}, {}),", literal(description.key), stored);
    } else {
      const std::string shape = description.shape.empty() ? "{}" : fmt::format("{{{}}}", description.shape[0]);
      call = fmt::format("fixed_len({}, {}, {}),", literal(description.key), shape, stored);
    }
    text += fmt::format("    {:<50}  // ", call);
    text += feature.least == feature.most ? fmt::format("{} values", feature.most)
                                          : fmt::format("{} to {} values", feature.least, feature.most);
    if (feature.records < num_records_) text += fmt::format(", in {} of {} records", feature.records, num_records_);
    text += "\n";
  }
  for (const std::string& what : left_out()) text += fmt::format("    // left out: {}\n", what);
  return text + "})\n";
}

}  // namespace millrace
