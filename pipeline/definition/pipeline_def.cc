#include "millrace/pipeline/definition/pipeline_def.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include "millrace/formats/json/parse_json.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/formats/utf8.h"
#include "millrace/pipeline/definition/methods.h"
#include "pipeline/definition/pipeline_def.pb.h"

namespace millrace {
namespace {

constexpr uint32_t kVersion = 1;
// Of inputs in inputs: each takes two of the 64 messages in messages that protobuf's JSON form may have, and the call
// inside some more.
constexpr int kMostDepth = 24;
// In all: what builds a dataset and takes it apart goes down its steps.
constexpr int kMostSteps = 1000;

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

bool is_json(std::string_view path) { return path.ends_with(".json"); }

using StepList = google::protobuf::RepeatedPtrField<def::Step>;

[[noreturn]] void refuse_size() {
  refuse(fmt::format("pipeline: a definition has at most {} steps, and {} inputs in inputs", kMostSteps, kMostDepth));
}

void write(const PlanNode& node, StepList& steps, int depth, int& num_steps) {
  if (depth > kMostDepth || ++num_steps > kMostSteps) refuse_size();
  std::vector<def::Steps> inputs;
  if (node.inputs.size() == 1) {
    write(*node.inputs[0], steps, depth, num_steps);
  } else {
    for (const PlanNodePtr& input : node.inputs) {
      write(*input, *inputs.emplace_back().mutable_steps(), depth + 1, num_steps);
    }
  }
  if (node.arguments == nullptr) {
    refuse(
        fmt::format("a dataset with an operator of its own ('{}', from_operator) cannot be written as a pipeline "
                    "definition: build it with methods of Dataset",
                    node.op->name()));
  }
  def::Step& step = *steps.Add();
  for (def::Steps& input : inputs) step.mutable_inputs()->Add(std::move(input));
  try {
    write_call(*node.arguments, step);
  } catch (const ErrorException& e) {
    refuse(fmt::format("the dataset cannot be written as a pipeline definition: {}: {}", node.op->name(),
                       e.error().message));
  }
}

// `place`: `inputs[1].steps`.
Dataset build(const StepList& steps, const std::string& place, int depth, int& num_steps) {
  num_steps += steps.size();
  if (depth > kMostDepth || num_steps > kMostSteps) refuse_size();
  std::vector<Dataset> before;
  for (int i = 0; i < steps.size(); ++i) {
    const def::Step& step = steps[i];
    const std::string here = fmt::format("{}[{}]", place, i);
    std::vector<Dataset> inputs;
    inputs.reserve(static_cast<size_t>(step.inputs_size()));
    for (int k = 0; k < step.inputs_size(); ++k) {
      inputs.push_back(
          build(step.inputs(k).steps(), fmt::format("{}.inputs[{}].steps", here, k), depth + 1, num_steps));
    }
    if (!inputs.empty() && !before.empty()) {
      refuse(fmt::format("pipeline: {}: it has inputs and stands after a step", here));
    }
    if (inputs.empty()) inputs = before;
    try {
      before = {call_method(step, inputs)};
    } catch (const ErrorException& e) {
      Error error = e.error();
      const std::string field =
          step.operator_case() == 0 ? "" : step.GetDescriptor()->FindFieldByNumber(step.operator_case())->name() + ": ";
      error.message = fmt::format("pipeline: {}: {}{}", here, field, error.message);
      throw ErrorException(std::move(error));
    }
  }
  if (before.empty()) refuse(fmt::format("pipeline: {}: there are no steps", place));
  return before[0];
}

// Of the first error that protobuf finds in a text.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text.empty()) text = fmt::format("{}:{}: {}", line + 1, column + 1, message);
  }
  std::string text;
};

using Message = google::protobuf::Message;
using Field = google::protobuf::FieldDescriptor;

// Calls `visit(message, field, i)` for each value that is set, the i-th of its field, in messages within it too.
template <typename Visit>
void for_each_value(const Message& message, const Visit& visit) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const Field*> fields;
  reflection.ListFields(message, &fields);
  for (const Field* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      visit(message, *field, i);
      if (field->type() != Field::TYPE_MESSAGE) continue;
      for_each_value(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                          : reflection.GetMessage(message, field),
                     visit);
    }
  }
}

// The text form takes any bytes.
void need_utf8(const Message& message, std::string_view name) {
  for_each_value(message, [name](const Message& in, const Field& field, int i) {
    if (field.type() != Field::TYPE_STRING) return;
    const google::protobuf::Reflection& reflection = *in.GetReflection();
    const std::string text = field.is_repeated() ? reflection.GetRepeatedString(in, &field, i)  //
                                                 : reflection.GetString(in, &field);
    if (is_valid_utf8(text)) return;
    const std::string of_bytes = field.name() + "_bytes";
    refuse(field.containing_type()->FindFieldByName(of_bytes) != nullptr
               ? fmt::format("{}: '{}' is no UTF-8; '{}' is for such", name, field.name(), of_bytes)
               : fmt::format("{}: '{}' is no UTF-8: '{:.60}'", name, field.name(), printable(text)));
  });
}

// Protobuf writes a negative zero as -0 and reads that as 0.
void need_no_negative_zero(const Message& message) {
  for_each_value(message, [](const Message& in, const Field& field, int i) {
    const google::protobuf::Reflection& reflection = *in.GetReflection();
    double value = 1;
    if (field.type() == Field::TYPE_FLOAT) {
      value = field.is_repeated() ? reflection.GetRepeatedFloat(in, &field, i) : reflection.GetFloat(in, &field);
    } else if (field.type() == Field::TYPE_DOUBLE) {
      value = field.is_repeated() ? reflection.GetRepeatedDouble(in, &field, i) : reflection.GetDouble(in, &field);
    }
    if (value == 0 && std::signbit(value)) {
      refuse(fmt::format("the pipeline cannot be written as JSON, which has no -0: '{}'; the text form has",
                         field.name()));
    }
  });
}

std::shared_ptr<const def::PipelineDef> checked(std::shared_ptr<const def::PipelineDef> message,
                                                std::string_view name) {
  if (message->version() != kVersion) {
    refuse(message->has_version()
               ? fmt::format("{}: version {}, where this Millrace reads version {}", name, message->version(), kVersion)
               : fmt::format("{}: 'version' is missing, which is to be {}", name, kVersion));
  }
  return message;
}

}  // namespace

PipelineDef PipelineDef::of(const Dataset& dataset) {
  auto message = std::make_shared<def::PipelineDef>();
  message->set_version(kVersion);
  int num_steps = 0;
  write(*dataset.plan(), *message->mutable_steps(), 0, num_steps);
  return PipelineDef(std::move(message));
}

PipelineDef PipelineDef::from_text(std::string_view text, std::string_view name) {
  auto message = std::make_shared<def::PipelineDef>();
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.SetRecursionLimit(2 * kMostDepth + 16);
  if (!parser.ParseFromString(std::string(text), message.get())) refuse(fmt::format("{}:{}", name, error.text));
  need_utf8(*message, name);
  return PipelineDef(checked(std::move(message), name));
}

PipelineDef PipelineDef::from_json(std::string_view json, std::string_view name) {
  if (const std::string why = unreadable_json(json); !why.empty()) refuse(fmt::format("{}: {}", name, why));
  auto message = std::make_shared<def::PipelineDef>();
  const auto status = google::protobuf::util::JsonStringToMessage(std::string(json), message.get());
  if (!status.ok()) {
    const std::string why(status.message());
    // What it says of such a field: invalid value "…" for type TYPE_BYTES.
    const bool is_bytes = why.find("TYPE_BYTES") != std::string::npos;
    refuse(fmt::format("{}: {}{}", name, why,
                       is_bytes ? "; fields named *_bytes are base64, those without _bytes the text itself" : ""));
  }
  return PipelineDef(checked(std::move(message), name));
}

PipelineDef PipelineDef::load(const std::string& path) {
  const std::string content = read_whole_anywhere(path, "pipeline definition");
  return is_json(path) ? from_json(content, path) : from_text(content, path);
}

std::string PipelineDef::to_text() const {
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(*message_, &text);
  return text;
}

std::string PipelineDef::to_json() const {
  need_no_negative_zero(*message_);
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(*message_, &json, options);
  if (!status.ok()) refuse(fmt::format("the pipeline cannot be written as JSON: {}", std::string(status.message())));
  return json;
}

void PipelineDef::save(const std::string& path) const { write_anywhere(path, is_json(path) ? to_json() : to_text()); }

Dataset PipelineDef::dataset() const {
  int num_steps = 0;
  return build(message_->steps(), "steps", 0, num_steps);
}

std::string PipelineDef::difference(const PipelineDef& other) const {
  google::protobuf::util::MessageDifferencer differencer;
  std::string text;
  differencer.ReportDifferencesToString(&text);
  differencer.Compare(*message_, *other.message_);
  return text;
}

}  // namespace millrace
