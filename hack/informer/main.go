// Command informer runs client-go's shared informers on pods (typed) and on one custom resource (dynamic), and answers
// questions about them: one JSON command per line on standard input, one JSON answer per line on standard output.
//
//	{"do": "await", "resource": "pods", "objects": {"NAME": "UID@VERSION"}}   answers when the events add up to these objects
//	{"do": "await-bookmark", "resource": "pods", "version": 7}               answers when a bookmark of at least 7 came
//	{"do": "report"}                                                          what each informer saw and asked for
//
// It ends at the end of its input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

type command struct {
	Do       string            `json:"do"`
	Resource string            `json:"resource"`
	Objects  map[string]string `json:"objects"`
	Version  uint64            `json:"version"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "the server and how to log in")
	namespace := flag.String("namespace", metav1.NamespaceDefault, "the namespace to watch")
	custom := flag.String("custom", "", "the custom resource, as group/version/resource")
	seconds := flag.Int64("watch-seconds", 0, "ask the server to end each watch after so long; 0 leaves it to client-go")
	flag.Parse()

	parts := strings.Split(*custom, "/")
	if len(parts) != 3 {
		return fmt.Errorf("-custom=%q: group/version/resource is needed", *custom)
	}
	resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	ledger := newLedger("pods", resource.Resource)
	config.Wrap(ledger.wrap)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}

	tweak := func(options *metav1.ListOptions) {
		if *seconds > 0 && options.TimeoutSeconds != nil {
			options.TimeoutSeconds = seconds
		}
	}
	pods := informers.NewSharedInformerFactoryWithOptions(typed, 0,
		informers.WithNamespace(*namespace), informers.WithTweakListOptions(tweak)).Core().V1().Pods().Informer()
	others := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, *namespace, tweak).
		ForResource(resource).Informer()
	for name, informer := range map[string]cache.SharedIndexInformer{"pods": pods, resource.Resource: others} {
		if _, err := informer.AddEventHandler(ledger.handler(name)); err != nil {
			return err
		}
		go informer.RunWithContext(context.Background())
	}

	answers := json.NewEncoder(os.Stdout)
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(nil, 1<<24)
	for commands.Scan() {
		var asked command
		if err := json.Unmarshal(commands.Bytes(), &asked); err != nil {
			return fmt.Errorf("%q is no command: %w", commands.Text(), err)
		}
		var answer any
		switch asked.Do {
		case "await":
			count := ledger.awaitObjects(asked.Resource, asked.Objects)
			informer := others
			if asked.Resource == "pods" {
				informer = pods
			}
			answer = map[string]any{"objects": content(informer), "events": count}
		case "await-bookmark":
			ledger.awaitBookmark(asked.Resource, asked.Version)
			answer = map[string]any{}
		case "report":
			answer = ledger.report()
		default:
			return fmt.Errorf("unknown command %q", asked.Do)
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return commands.Err()
}

// content is what listers of the informer would return.
func content(informer cache.SharedIndexInformer) map[string]string {
	objects := map[string]string{}
	for _, object := range informer.GetStore().List() {
		name, state := identify(object)
		objects[name] = state
	}
	return objects
}

func identify(object any) (name, state string) {
	if pod, typed := object.(*corev1.Pod); typed && len(pod.Spec.Containers) == 0 {
		panic(fmt.Sprintf("pod %s arrived without its containers", pod.Name))
	}
	metadata := object.(metav1.Object)
	return metadata.GetName(), fmt.Sprintf("%s@%s", metadata.GetUID(), metadata.GetResourceVersion())
}
