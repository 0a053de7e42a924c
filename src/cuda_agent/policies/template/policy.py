class TemplatePolicy: pass
