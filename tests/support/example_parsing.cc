#include "tests/support/example_parsing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/stubs/logging.h>

#include "example.pb.h"
#include "example_entries.pb.h"

namespace millrace::test {
namespace {

using nlohmann::json;

std::string from_base64(const std::string& text) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(kDigits.find(c));
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      bytes += static_cast<char>(bits >> num_bits);
    }
  }
  return bytes;
}

FeatureDefault values_of(DType stored, const json& list) {
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  for (const json& value : list) {
    switch (stored) {
      case DType::kInt64:
        ints.push_back(value.is_string() ? std::stoll(value.get<std::string>()) : value.get<int64_t>());
        break;
      case DType::kFloat32:
        floats.push_back(
            std::bit_cast<float>(static_cast<uint32_t>(std::stoul(value.get<std::string>(), nullptr, 16))));
        break;
      default: strings.push_back(from_base64(value.get<std::string>()));
    }
  }
  if (stored == DType::kInt64) return ints;
  if (stored == DType::kFloat32) return floats;
  return strings;
}

FeatureDescription description_of(const std::string& key, const json& spec) {
  const std::string dtype = spec.at("dtype");
  const DType stored = dtype == "int64" ? DType::kInt64 : dtype == "float" ? DType::kFloat32 : DType::kBytes;
  Shape shape;
  for (const json& size : spec.at("shape")) shape.push_back(size.is_null() ? kVaries : size.get<int64_t>());
  FeatureDescription description = fixed_len(key, shape, stored);
  if (!spec.at("default").is_null()) description = description.default_value(values_of(stored, spec.at("default")));
  return description;
}

// Floats as their bits, so that NaN equals itself and -0 is not 0.
std::vector<uint32_t> bits_of(const std::vector<float>& floats) {
  std::vector<uint32_t> bits;
  for (const float value : floats) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

bool same_values(const FeatureDefault& a, const FeatureDefault& b) {
  const auto* floats_a = std::get_if<std::vector<float>>(&a);
  const auto* floats_b = std::get_if<std::vector<float>>(&b);
  if (floats_a != nullptr && floats_b != nullptr) return bits_of(*floats_a) == bits_of(*floats_b);
  return a == b;
}

std::string describe(const FeatureDefault& values) {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&values)) return fmt::format("{}", *ints);
  if (const auto* floats = std::get_if<std::vector<float>>(&values)) return fmt::format("bits {}", bits_of(*floats));
  if (const auto* strings = std::get_if<std::vector<std::string>>(&values)) return fmt::format("{}", *strings);
  return "nothing";
}

template <typename T>
void append(FeatureDefault& all, const FeatureDefault& more) {
  auto& to = std::get<std::vector<T>>(all);
  const auto& from = std::get<std::vector<T>>(more);
  to.insert(to.end(), from.begin(), from.end());
}

// The values of a batch, record after record.
FeatureDefault joined(const std::vector<ParsedRecord>& records, size_t feature, DType stored) {
  FeatureDefault all = values_of(stored, json::array());
  for (const ParsedRecord& record : records) {
    switch (stored) {
      case DType::kInt64: append<int64_t>(all, record.values[feature]); break;
      case DType::kFloat32: append<float>(all, record.values[feature]); break;
      default: append<std::string>(all, record.values[feature]);
    }
  }
  return all;
}

ParseCaseOutcome failed(std::string difference) { return {ParseCaseResult::kFailed, std::move(difference)}; }

}  // namespace

bool same(const ParsedRecord& a, const ParsedRecord& b) {
  if (a.refused.empty() != b.refused.empty()) return false;
  if (!a.refused.empty()) return true;
  return std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_values);
}

std::string to_string(const ParsedRecord& parsed) {
  if (!parsed.refused.empty()) return "refused: " + parsed.refused;
  std::string text;
  for (const FeatureDefault& values : parsed.values) text += describe(values) + " ";
  return text;
}

ParsedRecord parse_with_millrace(const ExampleParser& parser, std::string_view record) {
  constexpr size_t kGuard = 64;
  constexpr auto kUntouched = std::byte{0xa5};
  // A copy that ends where the record ends, so that sanitizers see every read beyond it.
  const std::vector<char> exact(record.begin(), record.end());
  std::vector<std::vector<std::byte>> buffers;
  std::vector<std::byte*> destinations;
  for (const FeatureDescription& feature : parser.features()) {
    const auto count = static_cast<size_t>(num_values(feature.shape));
    buffers.emplace_back(count * size_of(feature.dtype) + kGuard, kUntouched);
  }
  for (auto& buffer : buffers) destinations.push_back(buffer.data());
  ParsedRecord parsed;
  if (auto error = parser.parse({exact.data(), exact.size()}, destinations)) {
    parsed.refused = error->to_string();
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (!std::all_of(buffers[i].end() - kGuard, buffers[i].end(), [](std::byte b) { return b == kUntouched; })) {
      parsed.refused = "the parser wrote beyond the end of " + parser.features()[i].key;
    }
  }
  if (!parsed.refused.empty()) return parsed;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const FeatureDescription& feature = parser.features()[i];
    const auto count = static_cast<size_t>(num_values(feature.shape));
    const auto read = [&]<typename To, typename From>(To, From) {
      std::vector<To> values;
      for (size_t v = 0; v < count; ++v) {
        From value;
        std::memcpy(&value, buffers[i].data() + v * sizeof(From), sizeof(From));
        values.emplace_back(value);
      }
      return FeatureDefault(values);
    };
    switch (feature.dtype) {
      case DType::kInt32: parsed.values.push_back(read(int64_t{}, int32_t{})); break;
      case DType::kInt64: parsed.values.push_back(read(int64_t{}, int64_t{})); break;
      case DType::kFloat32: parsed.values.push_back(read(float{}, float{})); break;
      case DType::kBytes: parsed.values.push_back(read(std::string{}, std::string_view{})); break;
    }
  }
  return parsed;
}

ParsedRecord parse_with_protobuf(std::span<const FeatureDescription> features, std::string_view record) {
  const google::protobuf::LogSilencer silencer;
  example::Example message;
  example::ExampleEntries entries;
  const int size = static_cast<int>(record.size());
  if (!message.ParseFromArray(record.data(), size) || !entries.ParseFromArray(record.data(), size)) {
    return {.refused = "protobuf refuses it", .values = {}};
  }
  std::map<std::string, const example::Feature*> last;
  for (const auto& entry : entries.features().feature()) {
    if (entry.value().kind_case() != example::Feature::KIND_NOT_SET) last[entry.key()] = &entry.value();
  }
  ParsedRecord parsed;
  for (const FeatureDescription& feature : features) {
    const auto found = last.find(feature.key);
    if (found == last.end()) {
      if (std::holds_alternative<std::monostate>(feature.default_values)) return {"missing " + feature.key, {}};
      parsed.values.push_back(feature.default_values);
      continue;
    }
    FeatureDefault values;
    DType kind = DType::kBytes;
    size_t count = 0;
    switch (found->second->kind_case()) {
      case example::Feature::kInt64List: {
        kind = DType::kInt64;
        const auto& list = found->second->int64_list().value();
        values = std::vector<int64_t>(list.begin(), list.end());
        count = static_cast<size_t>(list.size());
        if (feature.dtype == DType::kInt32 &&
            std::any_of(list.begin(), list.end(), [](int64_t v) { return v != static_cast<int32_t>(v); })) {
          return {"a value that does not fit int32", {}};
        }
        break;
      }
      case example::Feature::kFloatList: {
        kind = DType::kFloat32;
        const auto& list = found->second->float_list().value();
        values = std::vector<float>(list.begin(), list.end());
        count = static_cast<size_t>(list.size());
        break;
      }
      default: {
        const auto& list = found->second->bytes_list().value();
        values = std::vector<std::string>(list.begin(), list.end());
        count = static_cast<size_t>(list.size());
      }
    }
    if (kind != feature.stored) return {"another kind in " + feature.key, {}};
    if (count != static_cast<size_t>(num_values(feature.shape))) return {"another count in " + feature.key, {}};
    parsed.values.push_back(std::move(values));
  }
  return parsed;
}

ParseCaseOutcome run_parse_case(const json& golden) {
  if (golden.at("kind") != "example") return {ParseCaseResult::kNotYet, "sequence examples"};
  std::vector<FeatureDescription> features;
  for (const auto& [key, spec] : golden.at("spec").items()) {
    if (spec.at("type") != "FixedLen") return {ParseCaseResult::kNotYet, spec.at("type")};
    features.push_back(description_of(key, spec));
  }
  const json error = golden.at("error");
  const bool bad_description = !error.is_null() && error.at("by") == "python";
  std::optional<ExampleParser> parser;
  try {
    parser.emplace(features);
  } catch (const ErrorException& refused) {
    // TensorFlow finds some bad descriptions only when they run.
    return error.is_null() ? failed(refused.what()) : ParseCaseOutcome{};
  }
  if (bad_description)
    return failed("expected the description to be refused: " + error.at("message").get<std::string>());

  // Which records must be refused, and which must give what protobuf gives.
  const json& records = golden.at("records");
  std::vector<ParsedRecord> parsed;
  std::vector<bool> refuse(records.size(), false);
  const auto mark = [&refuse](const json& list) {
    for (const json& entry : list) refuse[(entry.is_object() ? entry.at("record") : entry).get<size_t>()] = true;
  };
  if (golden.contains("protobuf_accepts")) {
    for (size_t i = 0; i < records.size(); ++i) refuse[i] = !golden.at("protobuf_accepts")[i].get<bool>();
  }
  if (golden.contains("protobuf_differs")) mark(golden.at("protobuf_differs"));
  if (golden.contains("batch_of_one_fails")) mark(golden.at("batch_of_one_fails"));
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string record = from_base64(records[i]);
    parsed.push_back(parse_with_millrace(*parser, record));
    if (refuse[i]) {
      if (parsed[i].refused.empty())
        return failed(fmt::format("record {}: expected an error, found {}", i, to_string(parsed[i])));
    } else if (!error.is_null()) {
      const ParsedRecord expected = parse_with_protobuf(features, record);
      if (!same(parsed[i], expected)) {
        return failed(fmt::format("record {}: expected {}, found {}", i, to_string(expected), to_string(parsed[i])));
      }
    } else if (!parsed[i].refused.empty()) {
      return failed(fmt::format("record {}: {}", i, parsed[i].refused));
    }
  }
  if (!error.is_null() || std::find(refuse.begin(), refuse.end(), true) != refuse.end()) return {};
  for (size_t f = 0; f < features.size(); ++f) {
    const json& dense = golden.at("expect").at(features[f].key);
    Shape shape = features[f].shape;
    shape.insert(shape.begin(), static_cast<int64_t>(records.size()));
    if (dense.at("shape") != json(shape))
      return failed(fmt::format("{}: shape {}", features[f].key, dense.at("shape").dump()));
    const FeatureDefault expected = values_of(features[f].stored, dense.at("values"));
    const FeatureDefault found = joined(parsed, f, features[f].stored);
    if (!same_values(expected, found)) {
      return failed(fmt::format("{}: expected {}, found {}", features[f].key, describe(expected), describe(found)));
    }
  }
  return {};
}

std::vector<json> read_json_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(json::parse(line));
  }
  return lines;
}

}  // namespace millrace::test
