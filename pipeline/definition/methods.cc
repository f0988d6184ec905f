#include "millrace/pipeline/definition/methods.h"

#include <string_view>

#include "millrace/pipeline/definition/fields.h"
#include "millrace/pipeline/definition/method_list.h"
#include "pipeline/definition/pipeline_def.pb.h"

namespace millrace {
namespace {

using definition::Datasets;
using definition::Message;

// Methods with a struct of arguments are called with what is in it, one after the other.
void expect_inputs(bool fits, std::string_view wanted, const Datasets& inputs) {
  if (!fits) refuse_argument(fmt::format("it takes {}, not {}", wanted, inputs.size()));
}
template <typename Of, typename... Parameters>
Dataset call(Dataset (*source)(Parameters...), const Datasets& inputs, const Of& arguments) {
  if constexpr (std::is_invocable_v<decltype(source), const Dataset&, const Of&>) {
    expect_inputs(inputs.size() == 1, "one input", inputs);
    return source(inputs[0], arguments);
  } else {
    return description_of<Of>().apply(arguments, [&](const auto&... values) {
      if constexpr (std::is_invocable_v<decltype(source), const Datasets&, decltype(unwrapped(values))...>) {
        expect_inputs(!inputs.empty(), "inputs", inputs);
        return source(inputs, unwrapped(values)...);
      } else {
        expect_inputs(inputs.empty(), "no input", inputs);
        return source(unwrapped(values)...);
      }
    });
  }
}
template <typename Of, typename... Parameters>
Dataset call(Dataset (Dataset::*method)(Parameters...) const, const Datasets& inputs, const Of& arguments) {
  expect_inputs(inputs.size() == 1, "one input", inputs);
  return description_of<Of>().apply(arguments,
                                    [&](const auto&... values) { return (inputs[0].*method)(unwrapped(values)...); });
}

struct Entry {
  std::string_view name;
  Dataset (*read)(const Message& message, const Datasets& inputs);
  void (*write)(const Arguments& arguments, Message& message);
};

template <typename Of, auto kMethod>
constexpr Entry entry(definition::Method<Of, kMethod>) {
  return {.name = description_of<Of>().name,
          .read =
              [](const Message& message, const Datasets& inputs) {
                Of arguments{};
                definition::FieldReader(message).read(arguments);
                return call<Of>(kMethod, inputs, arguments);
              },
          .write = [](const Arguments& arguments,
                      Message& message) { definition::FieldWriter(message).write(*arguments.as<Of>()); }};
}

template <typename... Methods>
constexpr std::array<Entry, sizeof...(Methods)> table_of(definition::MethodList<Methods...>) {
  return {entry(Methods())...};
}
constexpr std::array kTable = table_of(definition::Methods());

const Entry& method_called(std::string_view name) {
  const auto* found = std::find_if(kTable.begin(), kTable.end(), [&](const Entry& one) { return one.name == name; });
  if (found == kTable.end()) throw std::logic_error(fmt::format("{} is no method of Dataset", name));
  return *found;
}

}  // namespace

void write_call(const Arguments& arguments, def::Step& step) {
  const auto* field = definition::field_of(step, arguments.method());
  method_called(arguments.method()).write(arguments, *step.GetReflection()->MutableMessage(&step, field));
}

Dataset call_method(const def::Step& step, const std::vector<Dataset>& inputs) {
  const auto* field =
      step.GetReflection()->GetOneofFieldDescriptor(step, step.GetDescriptor()->FindOneofByName("operator"));
  if (field == nullptr) refuse_argument("no operator is named");
  return method_called(field->name()).read(step.GetReflection()->GetMessage(step, field), inputs);
}

}  // namespace millrace
