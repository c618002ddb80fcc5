// Command gofacts prints facts about the built-in types that only the Go sources contain: which fields
// are pointers, which are omitted when empty, which structs are embedded, the named scalar types, and
// the defaults and enums of the OpenAPI definitions compiled into the API server.
//
// Its output is committed as facts.txt, so that Go is needed only for a new Kubernetes release:
//
//	cd xtask/gofacts && go run . > facts.txt && cargo run -p xtask -- types
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

var registrations = []func(*runtime.Scheme) error{
	admissionv1.AddToScheme,
	admissionregistrationv1.AddToScheme,
	admissionregistrationv1alpha1.AddToScheme,
	admissionregistrationv1beta1.AddToScheme,
	discoveryDocuments,
	apiserverinternalv1alpha1.AddToScheme,
	appsv1.AddToScheme,
	authenticationv1.AddToScheme,
	authorizationv1.AddToScheme,
	autoscalingv1.AddToScheme,
	autoscalingv2.AddToScheme,
	batchv1.AddToScheme,
	certificatesv1.AddToScheme,
	certificatesv1alpha1.AddToScheme,
	certificatesv1beta1.AddToScheme,
	coordinationv1.AddToScheme,
	coordinationv1alpha2.AddToScheme,
	coordinationv1beta1.AddToScheme,
	corev1.AddToScheme,
	discoveryv1.AddToScheme,
	eventsv1.AddToScheme,
	flowcontrolv1.AddToScheme,
	networkingv1.AddToScheme,
	networkingv1beta1.AddToScheme,
	nodev1.AddToScheme,
	policyv1.AddToScheme,
	rbacv1.AddToScheme,
	resourcev1.AddToScheme,
	resourcev1alpha3.AddToScheme,
	resourcev1beta1.AddToScheme,
	resourcev1beta2.AddToScheme,
	schedulingv1.AddToScheme,
	schedulingv1alpha2.AddToScheme,
	storagev1.AddToScheme,
	storagev1beta1.AddToScheme,
	storagemigrationv1beta1.AddToScheme,
	apiextensionsv1.AddToScheme,
	apiregistrationv1.AddToScheme,
	metav1.AddMetaToScheme,
}

// discoveryDocuments registers only the documents of aggregated discovery: their group has no
// options and no watch events.
func discoveryDocuments(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(apidiscoveryv2.SchemeGroupVersion,
		&apidiscoveryv2.APIGroupDiscovery{}, &apidiscoveryv2.APIGroupDiscoveryList{})
	return nil
}

// Types that clients and server exchange but no scheme registers.
var unregistered = []reflect.Type{
	reflect.TypeFor[metav1.APIGroup](),
	reflect.TypeFor[metav1.APIGroupList](),
	reflect.TypeFor[metav1.APIResourceList](),
	reflect.TypeFor[metav1.APIVersions](),
	reflect.TypeFor[metav1.Patch](),
	reflect.TypeFor[metav1.Status](),
	reflect.TypeFor[version.Info](),
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

type facts struct {
	types   map[string]reflect.Type
	aliases map[string]reflect.Type
	kinds   map[string][]string
}

func main() {
	scheme := runtime.NewScheme()
	for _, register := range registrations {
		if err := register(scheme); err != nil {
			panic(err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	f := facts{types: map[string]reflect.Type{}, aliases: map[string]reflect.Type{}, kinds: map[string][]string{}}
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal {
			continue
		}
		f.visit(t)
		name := modelName(t)
		f.kinds[name] = append(f.kinds[name], gvk.GroupVersion().String()+"\t"+gvk.Kind)
	}
	for _, t := range unregistered {
		f.visit(t)
	}
	definitions := openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.Ref{} })
	f.print(definitions)
}

// modelName returns the OpenAPI name of a Go type: its import path with the host labels reversed.
func modelName(t reflect.Type) string {
	return modelPackage(t) + "." + t.Name()
}

func modelPackage(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".")
}

func (f *facts) visit(t reflect.Type) {
	if t.Name() != "" && t.PkgPath() != "" && t.Kind() != reflect.Struct {
		f.aliases[modelName(t)] = t
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		f.visit(t.Elem())
	case reflect.Map:
		f.visit(t.Key())
		f.visit(t.Elem())
	case reflect.Struct:
		name := modelName(t)
		if _, seen := f.types[name]; seen {
			return
		}
		f.types[name] = t
		if custom(t) {
			// The JSON encoding is independent of the fields, but some of these contain schemas.
			if !strings.Contains(name, "JSONSchemaPropsOr") {
				return
			}
		}
		for i := range t.NumField() {
			if field := t.Field(i); field.IsExported() && field.Tag.Get("json") != "-" {
				f.visit(field.Type)
			}
		}
	}
}

func custom(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(unmarshaler)
}

// expr formats a type relative to a package: declared types by their model name, or as .Name if the
// package itself declares them.
func expr(t reflect.Type, from string) string {
	switch {
	case t.Name() == "":
		return structure(t, from)
	case t.PkgPath() == "":
		return t.Name()
	case modelPackage(t) == from:
		return "." + t.Name()
	default:
		return modelName(t)
	}
}

func structure(t reflect.Type, from string) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + expr(t.Elem(), from)
	case reflect.Slice:
		return "[]" + expr(t.Elem(), from)
	case reflect.Map:
		return "map[" + expr(t.Key(), from) + "]" + expr(t.Elem(), from)
	case reflect.Interface:
		return "any"
	default:
		return t.Kind().String()
	}
}

const header = `# Generated by xtask/gofacts (go run . > facts.txt) from the modules pinned in its go.mod.
# Tab separated; expressions are Go's, with OpenAPI names for packages and .Name within the package.
# P package                    the package of the declarations that follow
# A name expression            a named type that is not a struct
# T name [custom]              a struct; custom: it implements json.Unmarshaler
# K apiVersion kind            a kind that the struct above is registered as
# F json flags number expression patchStrategy mergeKey default enum
#   a field of that struct; e: omitempty, z: omitzero, i: embedded, under its Go name`

func (f *facts) print(definitions map[string]common.OpenAPIDefinition) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprintln(out, header)
	all := map[string]reflect.Type{}
	for name, t := range f.aliases {
		all[name] = t
	}
	for name, t := range f.types {
		all[name] = t
	}
	inPackage := ""
	for _, name := range sorted(all) {
		t := all[name]
		if declared := modelPackage(t); declared != inPackage {
			inPackage = declared
			fmt.Fprintf(out, "P\t%s\n", inPackage)
		}
		switch {
		case t.Kind() != reflect.Struct:
			fmt.Fprintf(out, "A\t%s\t%s\n", t.Name(), structure(t, inPackage))
		case custom(t):
			fmt.Fprintf(out, "T\t%s\tcustom\n", t.Name())
		default:
			f.printStruct(out, name, t, definitions[name].Schema.Properties)
		}
	}
}

func (f *facts) printStruct(out *bufio.Writer, name string, t reflect.Type, properties map[string]spec.Schema) {
	fmt.Fprintf(out, "T\t%s\n", t.Name())
	sort.Strings(f.kinds[name])
	for _, kind := range f.kinds[name] {
		fmt.Fprintf(out, "K\t%s\n", kind)
	}
	for i := range t.NumField() {
		printField(out, t.Field(i), modelPackage(t), properties)
	}
}

func printField(out *bufio.Writer, field reflect.StructField, from string, properties map[string]spec.Schema) {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if !field.IsExported() || name == "-" {
		return
	}
	flags := ""
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "omitempty":
			flags += "e"
		case "omitzero":
			flags += "z"
		case "", "inline":
		default:
			panic("unknown JSON option " + option)
		}
	}
	if name == "" {
		name = field.Name
		if field.Anonymous {
			flags += "i"
		}
	}
	number := "0"
	if tag := strings.Split(field.Tag.Get("protobuf"), ","); len(tag) > 1 {
		number = tag[1]
	}
	property := properties[name]
	value, enum := "", ""
	if property.Default != nil {
		value = encode(property.Default)
	}
	// The enum of a list or map is that of its elements.
	for _, element := range []*spec.Schema{&property, items(&property), values(&property)} {
		if element != nil && len(element.Enum) > 0 {
			enum = encode(element.Enum)
		}
	}
	line := []string{"F", name, flags, number, expr(field.Type, from),
		field.Tag.Get("patchStrategy"), field.Tag.Get("patchMergeKey"), value, enum}
	fmt.Fprintln(out, strings.TrimRight(strings.Join(line, "\t"), "\t"))
}

func items(property *spec.Schema) *spec.Schema {
	if property.Items == nil {
		return nil
	}
	return property.Items.Schema
}

func values(property *spec.Schema) *spec.Schema {
	if property.AdditionalProperties == nil {
		return nil
	}
	return property.AdditionalProperties.Schema
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
