// Command go-types prints how Go writes the kinds that the embedded API server serves, in protobuf and in JSON: for each
// message its fields by number, with their JSON names and types and what becomes of empty ones, read from the struct tags of
// the published Go types.
//
//	go run . > ../../crates/apiserver/facts/go-types.facts
//	go run . samples > ../../crates/apiserver/facts/go-types.samples
package main

import (
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var groups = []func(*runtime.Scheme) error{
	admissionregistrationv1.AddToScheme, apiextensionsv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme,
	authorizationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
	coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, eventsv1.AddToScheme,
	networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme,
	schedulingv1.AddToScheme, storagev1.AddToScheme,
}

// special are types whose JSON does not follow from their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                  "time",
	reflect.TypeFor[metav1.MicroTime]():                             "micro-time",
	reflect.TypeFor[resource.Quantity]():                            "quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "int-or-string",
	reflect.TypeFor[runtime.RawExtension]():                         "json",
	reflect.TypeFor[metav1.FieldsV1]():                              "json",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "json",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "either=1,2",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "either=2,1",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "either=1,2",
}

type extractor struct {
	messages map[string][]string
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range groups {
		if err := add(scheme); err != nil {
			fail("%v", err)
		}
	}
	if len(os.Args) > 1 {
		samples(scheme, os.Args[1] == "all-samples")
		return
	}
	found := extractor{messages: map[string][]string{}}
	roots := map[string]string{}
	for kind, goType := range scheme.AllKnownTypes() {
		if strings.HasPrefix(kind.Version, "__") || strings.HasSuffix(kind.Kind, "List") || kind.Kind == "WatchEvent" {
			continue
		}
		// Options belong to every group; one entry without a group serves them all.
		if strings.HasSuffix(kind.Kind, "Options") && goType.PkgPath() == reflect.TypeFor[metav1.DeleteOptions]().PkgPath() {
			if kind.Kind == "DeleteOptions" {
				roots["* DeleteOptions"] = found.message(goType)
			}
			continue
		}
		roots[kind.GroupVersion().String()+" "+kind.Kind] = found.message(goType)
	}
	fmt.Println("# How Go writes Kubernetes kinds in protobuf and JSON, extracted by `hack/go-types` from the published Go types.")
	fmt.Println("# Format: see the `go_types` module.")
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		fmt.Println("kind", root, roots[root])
	}
	for _, name := range slices.Sorted(maps.Keys(found.messages)) {
		fmt.Println("message", name)
		for _, line := range found.messages[name] {
			fmt.Println(" ", line)
		}
	}
}

// message notes the fields of a struct, and returns its name.
func (e *extractor) message(goType reflect.Type) string {
	version := path.Base(goType.PkgPath())
	name := fmt.Sprintf("%s.%s.%s", path.Base(path.Dir(goType.PkgPath())), version, goType.Name())
	if _, known := e.messages[name]; known {
		return name
	}
	e.messages[name] = nil
	var lines []string
	for index := range goType.NumField() {
		field := goType.Field(index)
		tag := field.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			if field.IsExported() && !field.Anonymous {
				fail("%s.%s has no protobuf tag", name, field.Name)
			}
			continue
		}
		number := strings.Split(tag, ",")[1]
		options := strings.Split(field.Tag.Get("json"), ",")
		jsonName, options := options[0], options[1:]
		fieldType := field.Type
		pointer := fieldType.Kind() == reflect.Pointer
		if pointer {
			fieldType = fieldType.Elem()
		}
		line := fmt.Sprintf("%s %s %s", number, jsonName, e.typeName(name+"."+field.Name, fieldType))
		switch {
		case slices.Contains(options, "inline") || jsonName == "":
			line = fmt.Sprintf("%s - %s", number, e.typeName(name+"."+field.Name, fieldType))
		case pointer && (slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")):
			line += " optional"
		case pointer:
			line += " nullable"
		case !(slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")):
			line += " always"
		case slices.Contains(options, "omitzero"):
			line += " omitzero"
		}
		lines = append(lines, line)
	}
	e.messages[name] = lines
	return name
}

func (e *extractor) typeName(where string, goType reflect.Type) string {
	if name, known := special[goType]; known {
		if rest, either := strings.CutPrefix(name, "either="); either {
			return "either=" + rest + "," + e.union(goType)
		}
		return name
	}
	switch goType.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Float64:
		return "double"
	case reflect.Struct:
		return e.message(goType)
	case reflect.Map:
		if goType.Key().Kind() != reflect.String {
			fail("%s: a map by %s", where, goType.Key())
		}
		return "{}" + e.typeName(where, goType.Elem())
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		list := "[]" + e.typeName(where, goType.Elem())
		// A named list with methods of its own is a message whose first field is the list.
		if _, message := reflect.PointerTo(goType).MethodByName("Unmarshal"); message {
			return "items=" + list
		}
		return list
	}
	fail("%s: no rule for %s", where, goType)
	return ""
}

// union notes a type with two members of which one is written, and returns its name.
func (e *extractor) union(goType reflect.Type) string {
	name := "apiextensions.v1." + goType.Name()
	if _, known := e.messages[name]; known {
		return name
	}
	e.messages[name] = nil
	var lines []string
	for index := range goType.NumField() {
		field := goType.Field(index)
		fieldType := field.Type
		if fieldType.Kind() == reflect.Pointer {
			fieldType = fieldType.Elem()
		}
		number := strings.Split(field.Tag.Get("protobuf"), ",")[1]
		lines = append(lines, fmt.Sprintf("%s %s %s optional", number, number, e.typeName(name+"."+field.Name, fieldType)))
	}
	e.messages[name] = lines
	return name
}

func fail(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "go-types: "+format+"\n", values...)
	os.Exit(1)
}
