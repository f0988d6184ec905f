#include "millrace/formats/example/survey.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/example/map_entries.h"
#include "millrace/formats/example/value_list.h"
#include "millrace/formats/example/wire.h"

namespace millrace {
namespace {

using wire::kDelimited;
using wire::tag;
using wire::Wire;

// Of the last entry with each key, as protobuf's maps have it.
std::map<std::string, wire::ValueList, std::less<>> features_of(std::string_view record) {
  std::map<std::string, wire::ValueList, std::less<>> features;
  for (Wire example(record, wire::kExampleDepth); !example.done();) {
    const uint32_t field = example.read_tag();
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

}  // namespace

void ExampleSurvey::add(std::string_view record) {
  try {
    const auto lists = features_of(record);
    for (const auto& [key, list] : lists) {
      const auto known = features_.find(key);
      if (!list.kind || known == features_.end() || known->second.stored == *list.kind) continue;
      throw wire::Malformed{fmt::format("feature '{}' holds {}, and {} in an earlier record", key,
                                        millrace::to_string(*list.kind), millrace::to_string(known->second.stored))};
    }
    for (const auto& [key, list] : lists) {
      if (!list.kind) continue;
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

std::string ExampleSurvey::to_string() const {
  std::string text = "parse_example({\n";
  for (const FeatureDescription& description : proposal()) {
    const Feature& feature = features_.at(description.key);
    const std::string_view stored = builder_name(feature.stored);
    std::string call;
    if (description.kind == FeatureDescription::kVarLen) {
      call = fmt::format("var_len(\"{}\", {}),", description.key, stored);
    } else {
      const std::string shape = description.shape.empty() ? "{}" : fmt::format("{{{}}}", description.shape[0]);
      call = fmt::format("fixed_len(\"{}\", {}, {}),", description.key, shape, stored);
    }
    text += fmt::format("    {:<50}  // ", call);
    text += feature.least == feature.most ? fmt::format("{} values", feature.most)
                                          : fmt::format("{} to {} values", feature.least, feature.most);
    if (feature.records < num_records_) text += fmt::format(", in {} of {} records", feature.records, num_records_);
    text += "\n";
  }
  return text + "})\n";
}

}  // namespace millrace
