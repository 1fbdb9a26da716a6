#include "runtime/jinja/Template.h"

#include "runtime/jinja/Parser.h"
#include "runtime/jinja/Syntax.h"

namespace mt::jinja {

Template::Template(std::unique_ptr<const Document> document) : document(std::move(document)) {}
Template::Template(Template &&) noexcept = default;
Template &Template::operator=(Template &&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source) {
  MT_ASSIGN(std::unique_ptr<const Document> document, parseDocument(source));
  return Template(std::move(document));
}

Result<Rendered> Template::render(const nlohmann::ordered_json &variables, std::optional<int64_t> moment) const {
  Render render;
  render.heap.moment = moment;
  MT_TRY(render.define(variables));
  render.scope = document->body.newScope(render, render.scope);
  MT_TRY(document->body.execute(render).status());
  return Rendered{.text = render.take(), .generated = std::move(render.generated)};
}

bool Template::marksGeneration() const { return document->generates; }

} // namespace mt::jinja
